"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const read = (id) => JSON.parse($(id).textContent);
  const run = read("records");
  const PRIMARY = read("primary");
  const kindOf = (engine) => run.engines[engine].kind;
  const GROUPS = { sse: "Event streams", json: "JSON", utf8: "UTF-8" };
  const LEVELS = {
    text: "payloads as text", json: "parsed as JSON", get: "one value out of the JSON", validate: "validated",
  };
  const levelName = (level) => (state.group === "utf8" ? "decoded to text" : LEVELS[level]);
  const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
  const WORDS = { wrong: "wrong output", lost: "lost events", error: "raises an error", unsupported: "not supported" };
  const RANK = ["wrong", "lost", "error"];
  const unique = (values) => [...new Set(values)];
  const compact = () => window.innerWidth < 640;

  // --- words and figures

  // Plotly reads some HTML in its texts; what comes from the records must not be read so.
  const plain = (text) =>
    String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  function digits(value) {
    const behind = value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 3;
    return value.toLocaleString("en", { minimumFractionDigits: behind, maximumFractionDigits: behind });
  }
  // As `figure` in dashboard.py.
  const SCALES = { ns: ["ns", "µs", "ms", "s"], ms: ["ms", "s"], KiB: ["KiB", "MiB", "GiB"], exponent: [""] };
  function figure(value, unit, long) {
    const [base, per] = unit.split("/");
    const step = base === "KiB" ? 1024 : 1000;
    const names = [...(SCALES[base] ?? [base])];
    while (names.length > 1 && value >= 10 * step) {
      value /= step;
      names.shift();
    }
    return `${digits(value)} ${names[0]}${per && (long || per === "s") ? `/${per}` : ""}`.trim();
  }
  const times = (ratio) => `${ratio >= 9.5 ? ratio.toFixed(0) : ratio >= 2 ? ratio.toFixed(1) : ratio.toFixed(2)}×`;
  const chunkName = (chunk) =>
    chunk === "whole" ? "in one piece" : chunk === "event" ? "one event each"
      : chunk === "1" ? "1 byte" : `${Number(chunk).toLocaleString("en")} bytes`;
  const chunkBytes = (record) =>
    record.chunk === "whole" ? record.bytes
      : record.chunk === "event" ? record.bytes / record.events : Number(record.chunk);
  const byChunk = (a, b) => {
    const place = (chunk) => (chunk === "whole" ? Infinity : chunk === "event" ? 300 : Number(chunk));
    return place(b) - place(a);
  };

  // --- what is shown

  const state = { group: "sse", level: "", chunk: "", measure: "cpu_time", scale: "linear" };
  const hiddenEngines = new Set();
  const hiddenWorkloads = new Set();
  const timed = run.records.filter((r) => r.metric === "cpu_time" || r.metric === "throughput");
  const inGroup = () => run.records.filter((r) => r.group === state.group);
  const shown = (records) => records.filter((r) => !hiddenEngines.has(r.engine) && !hiddenWorkloads.has(r.workload));
  const selected = () =>
    shown(timed.filter((r) => r.group === state.group && r.metric === state.measure && r.level === state.level));

  function settle() {
    const groups = Object.keys(GROUPS).filter((group) => run.records.some((r) => r.group === group));
    if (!groups.includes(state.group)) state.group = groups[0] ?? "sse";
    const own = timed.filter((r) => r.group === state.group && r.metric === state.measure);
    const levels = Object.keys(LEVELS).filter((level) => own.some((r) => r.level === level));
    if (!levels.includes(state.level)) state.level = levels[0] ?? "";
    const chunks = unique(own.filter((r) => r.level === state.level).map((r) => r.chunk)).sort(byChunk);
    if (!chunks.includes(state.chunk)) state.chunk = chunks.includes("16384") ? "16384" : (chunks[0] ?? "");
    return { groups, levels, chunks };
  }

  // --- style

  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "x", "star", "pentagon", "hexagon"];
  const SHAPES = {
    circle: '<circle cx="9" cy="6" r="4"/>', square: '<rect x="5" y="2" width="8" height="8"/>',
    diamond: '<path d="M9 1l5 5-5 5-5-5z"/>', "triangle-up": '<path d="M9 1.5l5 9H4z"/>',
    cross: '<path d="M7.5 1h3v3.5H14v3h-3.500V11h-3V7.500H4v-3h3.500z"/>', "triangle-down": '<path d="M4 1.500h10l-5 9z"/>',
    x: '<path d="M5 1l4 3 4-3 1 1-3 4 3 4-1 1-4-3-4 3-1-1 3-4-3-4z"/>',
    star: '<path d="M9 0l1.600 4H15l-3.500 2.700L13 11 9 8.500 5 11l1.500-4.300L3 4h4.400z"/>',
    pentagon: '<path d="M9 1l5 4-2 6H6L4 5z"/>', hexagon: '<path d="M6 1.500h6l3 4.500-3 4.500H6L3 6z"/>',
  };
  const others = Object.keys(run.engines).filter((e) => kindOf(e) === "peer" || kindOf(e) === "other-runtime");
  const ours = Object.keys(run.engines).filter((e) => kindOf(e) === "ours");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function styleOf(engine) {
    if (engine === PRIMARY) return { color: css("--ours"), bar: css("--ours"), width: 3.5, dash: "solid", symbol: "circle" };
    if (kindOf(engine) === "ours") {
      const place = ours.indexOf(engine);
      return { color: css("--ours"), bar: css("--ours-soft"), width: 2, dash: ["dash", "dot", "dashdot", "longdash"][place % 4], symbol: SYMBOLS[place % SYMBOLS.length] };
    }
    if (kindOf(engine) === "floor") return { color: css("--floor-line"), bar: css("--floor"), width: 2, dash: "dot", symbol: "circle-open" };
    const place = others.indexOf(engine);
    // 7 colours and 10 shapes have no common factor: 70 engines look different.
    return { color: css(`--c${place % 7}`), bar: css(kindOf(engine) === "peer" ? "--peer" : "--other"), width: 1.5, dash: "solid", symbol: SYMBOLS[place % SYMBOLS.length] };
  }
  function swatch(engine) {
    const { color, symbol } = styleOf(engine);
    const svg = `<svg class="swatch" viewBox="0 0 18 12" aria-hidden="true" fill="${color}" stroke="${color}"><path d="M0 6h18"/>${
      symbol === "circle-open" ? '<circle cx="9" cy="6" r="3.500" fill="none"/>' : SHAPES[symbol]}</svg>`;
    return new DOMParser().parseFromString(svg, "text/html").body.firstChild;
  }

  // --- elements

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") made.className = value;
      else if (key === "on") made.addEventListener("click", value);
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }
  const empty = (text) => element("p", { class: "empty" }, text);
  function options(select, values, name, chosen) {
    select.replaceChildren(...values.map((v) => element("option", { value: v }, name(v))));
    select.value = chosen;
    select.disabled = values.length < 2;
  }
  // Panels stay where they are while their content changes: nothing jumps.
  function panel(key, title, subtitle, label, height) {
    let made = panels.get(key);
    if (!made) {
      made = element("figure", { "data-key": key }, element("h3"), element("p"), element("div", { class: "plot", role: "img" }), element("div"));
      panels.set(key, made);
    }
    const [heading, below, plot, foot] = made.children;
    heading.textContent = title;
    below.textContent = subtitle;
    plot.setAttribute("aria-label", label);
    plot.style.height = `${height}px`;
    plot.hidden = false;
    foot.replaceChildren();
    return { figure: made, plot, foot, draw() {} };
  }
  const panels = new Map();
  const waiting = [];
  function show(place, made, nothing) {
    const wanted = made.length ? made.map((m) => m.figure) : [empty(nothing)];
    if (place.children.length !== wanted.length || wanted.some((child, i) => place.children[i] !== child)) {
      place.replaceChildren(...wanted);
    }
    waiting.push(...made);
  }
  // What is in sight is drawn at once, the rest one by one, so that a click is answered soon.
  let turn = 0;
  function drawWaiting() {
    const mine = ++turn;
    const inSight = ({ figure }) => {
      const box = figure.getBoundingClientRect();
      return box.bottom > 0 && box.top < window.innerHeight;
    };
    const all = waiting.splice(0);
    const later = all.filter((each) => !inSight(each));
    all.filter(inSight).forEach((each) => each.draw());
    document.body.dataset.state = "drawing";
    (function next() {
      if (mine !== turn) return; // another choice was made meanwhile
      if (later.length) {
        later.shift().draw();
        setTimeout(next);
      } else {
        document.body.dataset.state = "drawn";
      }
    })();
  }

  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };
  function layout(more) {
    const axis = { color: css("--quiet"), gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line"), fixedrange: true, automargin: false };
    return {
      font: { family: css("--body"), size: 12, color: css("--ink") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      showlegend: false, dragmode: false, hovermode: "closest", autosize: true,
      hoverlabel: { bgcolor: css("--ink"), bordercolor: css("--ink"), font: { color: css("--paper"), family: css("--body"), size: 13 }, align: "left", namelength: 0 },
      ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
    };
  }

  // --- bars

  function describe(record) {
    const engine = run.engines[record.engine];
    const lines = [`<b>${plain(record.engine)}</b> ${plain(engine.version ?? "")}`, `${figure(record.value, record.unit, true)}`];
    if (record.low !== null && record.high !== null) {
      const rounds = record.rounds === null ? "" : `, ${record.rounds} rounds`;
      lines.push(`from ${figure(record.low, record.unit)} to ${figure(record.high, record.unit)}${rounds}`);
    }
    return lines;
  }
  function bars(key, title, subtitle, records) {
    const better = records[0].better;
    const right = records.filter((r) => r.verdict === "ok").sort((a, b) => (better === "lower" ? a.value - b.value : b.value - a.value));
    const bad = records.filter((r) => RANK.includes(r.verdict)).sort((a, b) => RANK.indexOf(a.verdict) - RANK.indexOf(b.verdict));
    const rows = [...right, ...bad];
    const base = right.find((r) => r.engine === PRIMARY);
    const ratio = (r) => (better === "lower" ? r.value / base.value : base.value / r.value);
    const small = compact();
    const letters = small ? 15 : 24;
    const short = (name) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    const longest = Math.max(...rows.map((r) => Math.min(r.engine.length, letters)));
    const label = right.length
      ? `Bar chart, ${title}, ${subtitle}. Best: ${right[0].engine}, ${figure(right[0].value, right[0].unit, true)}.${base ? ` seamstream: ${figure(base.value, base.unit, true)}.` : ""}`
      : `${title}, ${subtitle}: no engine gave the right output.`;
    const made = panel(key, title, subtitle, label, rows.length * 25 + 42);
    const unable = records.filter((r) => r.verdict === "unsupported").map((r) => r.engine);
    if (unable.length) made.foot.append(element("p", { class: "note" }, `${capital(WORDS.unsupported)}: ${unable.join(", ")}`));
    if (!rows.length) {
      made.plot.hidden = true; // of nothing there is no axis
      return made;
    }
    const log = state.scale === "log";
    const most = Math.max(...right.map((r) => r.value), 1e-9);
    const least = Math.min(...right.filter((r) => r.value > 0).map((r) => r.value), most);
    made.draw = () => {
      const styles = right.map((r) => styleOf(r.engine));
      const trace = {
        type: "bar", orientation: "h", x: right.map((r) => r.value), y: right.map((_, i) => i), width: 0.68,
        marker: {
          color: styles.map((s) => s.bar),
          line: { color: right.map((r, i) => (kindOf(r.engine) === "floor" ? styles[i].color : styles[i].bar)), width: right.map((r) => (kindOf(r.engine) === "floor" ? 1 : 0)) },
          pattern: { shape: right.map((r) => (kindOf(r.engine) === "floor" ? "/" : "")), fgcolor: styles.map((s) => s.color), size: 5, solidity: 0.15 },
        },
        text: right.map((r) => figure(r.value, r.unit) + (base && base.value > 0 && r !== base ? `  <span style="color:${css("--quiet")}">${times(ratio(r))}</span>` : "")),
        textposition: "outside", textangle: 0, cliponaxis: false, constraintext: "none",
        customdata: right.map((r) => [...describe(r), ...(base && r !== base && r.value > 0 ? [`${times(ratio(r))} ${better === "lower" ? "the time" : "as slow as"} ${better === "lower" ? `of ${PRIMARY}` : PRIMARY}`] : [])].join("<br>")),
        hovertemplate: "%{customdata}<extra></extra>",
      };
      if (records[0].metric === "peak_memory") trace.customdata = right.map((r) => describe(r).join("<br>"));
      const bold = (r) => (r.engine === PRIMARY ? `<b>${plain(short(r.engine))}</b>` : plain(short(r.engine)));
      Plotly.react(made.plot, [trace], layout({
        height: rows.length * 25 + 42,
        margin: { l: Math.round(longest * 7) + (small ? 8 : 12), r: small ? 96 : 108, t: 4, b: 38 },
        xaxis: {
          type: state.scale, side: "bottom", range: log ? [Math.log10(least) - 0.35, Math.log10(most)] : [0, most], nticks: small ? 3 : 6,
          title: { text: plain(records[0].unit + (better === "lower" ? ", less is better" : ", more is better")), font: { size: 11 }, standoff: 6 }, tickfont: { size: 11 },
          ...(log ? { dtick: 1, tickformat: ",.2~r" } : { rangemode: "tozero", tickformat: "," }),
        },
        yaxis: { range: [rows.length - 0.4, -0.6], tickvals: rows.map((_, i) => i), ticktext: rows.map(bold), showgrid: false, zeroline: false, ticks: "", color: css("--ink"), ticklabelstandoff: 4, tickfont: { size: small ? 11 : 12 } },
        annotations: bad.map((r, i) => ({
          xref: "paper", x: 0, xanchor: "left", xshift: 4, y: right.length + i, text: WORDS[r.verdict], showarrow: false, captureevents: true,
          font: { color: css("--bad"), size: 12 }, hovertext: plain(`${r.engine}: ${r.detail || WORDS[r.verdict]}`),
        })),
      }), CONFIG);
    };
    return made;
  }

  // --- curves

  function curves(key, title, subtitle, records, place, unit, axisTitle, extra) {
    const engines = unique(records.map((r) => r.engine)).filter((e) => records.some((r) => r.engine === e && r.verdict === "ok"));
    // Ours last, so that nothing lies over it.
    engines.sort((a, b) => (kindOf(a) === "ours") - (kindOf(b) === "ours") || (a === PRIMARY) - (b === PRIMARY));
    const height = compact() ? 320 : 400;
    const right = records.filter((r) => r.verdict === "ok");
    const made = panel(key, title, subtitle, `Line chart, ${title}, ${subtitle}: ${engines.length} engines.`, height);
    const bad = records.filter((r) => !["ok", "unsupported"].includes(r.verdict));
    if (bad.length && !extra) {
      const note = element("p", { class: "note" }, "No figure: ");
      unique(bad.map((r) => `${r.engine}\n${r.verdict}`)).forEach((key, i) => {
        const [engine, verdict] = key.split("\n");
        const own = bad.filter((r) => r.engine === engine && r.verdict === verdict);
        const where = right.some((r) => r.engine === engine) ? ` (${own.map((r) => chunkName(r.chunk)).join(", ")})` : "";
        note.append(i ? "; " : "", `${engine}${where}, `, element("b", {}, WORDS[verdict]));
      });
      made.foot.append(note);
    }
    if (!engines.length) {
      made.plot.hidden = true;
      return made;
    }
    made.draw = () => {
      const traces = engines.map((engine) => {
        const points = right.filter((r) => r.engine === engine).sort((a, b) => place(a) - place(b));
        const style = styleOf(engine);
        const about = (r) => [...describe(r), ...(extra ? [`${(r.size_bytes / 1e6).toLocaleString("en")} MB`, extra.exponent(engine)] : [`chunks: ${chunkName(r.chunk)}`])];
        return {
          type: "scatter", mode: "lines+markers", name: plain(engine), x: points.map(place), y: points.map((r) => r.value),
          line: { color: style.color, width: style.width, dash: style.dash }, marker: { color: style.color, symbol: style.symbol, size: engine === PRIMARY ? 9 : 7 },
          opacity: kindOf(engine) === "ours" ? 1 : 0.85, customdata: points.map((r) => about(r).filter(Boolean).join("<br>")), hovertemplate: "%{customdata}<extra></extra>",
        };
      });
      const xs = unique(right.map(place)).sort((a, b) => a - b);
      const annotations = [];
      if (extra && xs.length > 1) {
        const [from, to] = [xs[0], xs[xs.length - 1]];
        const start = Math.min(...right.filter((r) => place(r) === from).map((r) => r.value));
        const top = Math.max(...right.map((r) => r.value));
        for (const [slope, name] of [[1, "linear"], [2, "quadratic"]]) {
          const end = Math.min(to, from * (top / start) ** (1 / slope));
          traces.unshift({ type: "scatter", mode: "lines", meta: "guide", x: [from, end], y: [start, start * (end / from) ** slope], hoverinfo: "skip", line: { color: css("--guide"), width: 1, dash: "dash" } });
          annotations.push({ x: Math.log10(end), y: Math.log10(start * (end / from) ** slope), text: name, showarrow: false, xanchor: "right", yanchor: slope === 1 ? "top" : "bottom", bgcolor: css("--card"), opacity: 0.9, font: { color: css("--quiet"), size: 11 } });
        }
      }
      const tick = extra ? (x) => `${(x / 1e6).toLocaleString("en")} MB` : (x) => names.get(x);
      const names = new Map(right.map((r) => [place(r), r.chunk === "whole" ? "all" : r.chunk === "event" ? "<br>event" : Number(r.chunk) % 1024 === 0 ? `${Number(r.chunk) / 1024}K` : r.chunk]));
      Plotly.react(made.plot, traces, layout({
        height, margin: { l: 62, r: 14, t: 8, b: extra ? 44 : 58 }, annotations,
        xaxis: { type: "log", tickvals: xs, ticktext: xs.map((x, i) => (compact() && extra && i % 2 ? "" : tick(x))), title: { text: axisTitle, font: { size: 11 }, standoff: extra ? 8 : 4 }, tickfont: { size: 11 }, tickangle: 0, zeroline: false },
        yaxis: { type: "log", dtick: 1, tickformat: ",.2~r", title: { text: plain(unit), font: { size: 11 }, standoff: 4 }, tickfont: { size: 11 }, zeroline: false },
      }), CONFIG);
    };
    return made;
  }

  // --- sections

  function drawBars(chunks) {
    const records = selected().filter((r) => r.chunk === state.chunk);
    const workloads = unique(records.map((r) => r.workload));
    $("bars-explain").textContent = records.length
      ? `${capital(levelName(state.level))}, chunks: ${chunkName(state.chunk)}. Factors are against ${PRIMARY}.`
      : "";
    show($("bars"), workloads.map((w) => {
      const own = records.filter((r) => r.workload === w);
      return bars(`bars ${state.group} ${w}`, w, `${own[0].events === null ? "" : `${own[0].events.toLocaleString("en")} events, `}${figure(own[0].bytes / 1024, "KiB")}`, own);
    }), chunks.length ? "Nothing is selected: choose an engine and a workload above." : "These records have no such figures.");
    drawTable(records, workloads);
  }
  function drawTable(records, workloads) {
    const engines = unique(records.map((r) => r.engine));
    if (!engines.length) {
      $("bars-table").replaceChildren(empty("Nothing is selected."));
      return;
    }
    const head = element("tr", {}, element("th", { scope: "col" }, "Engine"), ...workloads.map((w) => element("th", { scope: "col" }, w)));
    const rows = engines.map((engine) => element("tr", engine === PRIMARY ? { class: "ours" } : {}, element("th", { scope: "row" }, engine), ...workloads.map((w) => {
      const r = records.find((each) => each.engine === engine && each.workload === w);
      if (!r) return element("td", { class: "number" }, "–");
      return r.verdict === "ok" ? element("td", { class: "number" }, figure(r.value, r.unit, true)) : element("td", { class: "word", title: r.detail }, WORDS[r.verdict]);
    })));
    $("bars-table").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }
  function drawCurves() {
    const records = selected();
    const made = unique(records.map((r) => r.workload))
      .map((w) => [w, records.filter((r) => r.workload === w)])
      .filter(([, own]) => unique(own.filter((r) => r.verdict === "ok").map((r) => r.chunk)).length > 1)
      .map(([w, own]) => curves(`curves ${state.group} ${w}`, w, levelName(state.level), own, chunkBytes, own[0].unit, "bytes in a chunk"));
    show($("curves"), made, "No workload here was cut in more than one way.");
  }
  function drawGrowth() {
    const own = shown(inGroup());
    const times = own.filter((r) => r.metric === "growth_time");
    const made = unique(times.map((r) => `${r.workload} ${r.chunk}`)).map((key) => {
      const records = times.filter((r) => `${r.workload} ${r.chunk}` === key);
      const [{ workload, chunk, unit }] = records;
      const exponents = own.filter((r) => r.metric === "growth_exponent" && r.workload === workload && r.chunk === chunk);
      const exponent = (engine) => {
        const found = exponents.find((r) => r.engine === engine && r.verdict === "ok");
        return found ? `exponent ${found.value.toFixed(2)}` : "";
      };
      const m = curves(`growth ${state.group} ${key}`, workload, `chunks: ${chunkName(chunk)}`, records, (r) => r.size_bytes, unit, "size of the event", { exponent });
      const sorted = [...exponents].sort((a, b) => (a.value ?? Infinity) - (b.value ?? Infinity));
      m.foot.append(element("ul", { class: "exponents", "aria-label": "Exponents" }, ...sorted.map((r) =>
        element("li", { class: r.engine === PRIMARY ? "ours" : "", title: r.detail }, swatch(r.engine), element("span", {}, r.engine),
          r.verdict === "ok" ? element("b", {}, r.value.toFixed(2)) : element("b", { class: "word" }, r.verdict === "unsupported" ? r.detail.startsWith("too few") ? "too slow to fit" : "–" : WORDS[r.verdict])))));
      return m;
    });
    show($("growth"), made, `No growth was measured for ${GROUPS[state.group]}.`);
  }
  function drawMemory() {
    const records = shown(inGroup()).filter((r) => r.metric === "peak_memory");
    const made = unique(records.map((r) => `${r.workload} ${r.size_bytes} ${r.chunk}`)).map((key) => {
      const own = records.filter((r) => `${r.workload} ${r.size_bytes} ${r.chunk}` === key);
      return bars(`memory ${state.group} ${key}`, `${own[0].workload}, ${((own[0].size_bytes ?? own[0].bytes) / 1e6).toLocaleString("en")} MB`, `chunks: ${chunkName(own[0].chunk)}`, own);
    });
    show($("memory"), made, `No memory was measured for ${GROUPS[state.group]}.`);
  }

  function chip(name, isOn, toggle, mark) {
    return element("button", { type: "button", "aria-pressed": String(isOn), "data-name": name, on: toggle }, ...(mark ? [mark] : []), name);
  }
  function drawControls({ groups, levels, chunks }) {
    const focused = document.activeElement?.dataset?.name;
    const parent = document.activeElement?.parentElement?.id;
    $("group").replaceChildren(...groups.map((g) => element("button", { type: "button", "aria-pressed": String(g === state.group), "data-name": g, on: () => choose("group", g) }, GROUPS[g])));
    options($("level"), levels, levelName, state.level);
    options($("chunk"), chunks, chunkName, state.chunk);
    $("measure").value = state.measure;
    $("scale").value = state.scale;
    const own = inGroup();
    const workloads = unique(own.map((r) => r.workload));
    const engines = Object.keys(run.engines).filter((e) => own.some((r) => r.engine === e));
    const flip = (set, name) => () => {
      if (!set.delete(name)) set.add(name);
      render();
    };
    $("workloads").replaceChildren(...workloads.map((w) => chip(w, !hiddenWorkloads.has(w), flip(hiddenWorkloads, w))));
    $("engines").replaceChildren(...engines.map((e) => chip(e, !hiddenEngines.has(e), flip(hiddenEngines, e), swatch(e))));
    const only = (keep) => () => {
      hiddenEngines.clear();
      Object.keys(run.engines).filter((e) => !keep(e)).forEach((e) => hiddenEngines.add(e));
      render();
    };
    $("presets").replaceChildren(
      ...[["All engines", () => true], ["Peers and seamstream", (e) => e === PRIMARY || kindOf(e) === "peer" || kindOf(e) === "other-runtime"], ["Ours and the floor", (e) => kindOf(e) === "ours" || kindOf(e) === "floor"], ["None", () => false]]
        .map(([name, keep]) => element("button", { type: "button", "data-name": name, on: only(keep) }, name)));
    const count = (all, hidden) => (all.some((n) => hidden.has(n)) ? `${all.filter((n) => !hidden.has(n)).length} of ${all.length}` : `all ${all.length}`);
    $("shown").textContent = `${count(engines, hiddenEngines)} engines, ${count(workloads, hiddenWorkloads)} workloads`;
    if (focused && parent) [...$(parent).children].find((each) => each.dataset.name === focused)?.focus();
  }

  function render() {
    const choices = settle();
    drawControls(choices);
    drawBars(choices.chunks);
    drawCurves();
    drawGrowth();
    drawMemory();
    drawWaiting();
    try {
      const hidden = { ...state, engines: [...hiddenEngines].join("\n"), workloads: [...hiddenWorkloads].join("\n") };
      history.replaceState(null, "", `#${new URLSearchParams(hidden)}`);
    } catch { /* a sandboxed frame has no history */ }
  }
  function choose(name, value) {
    state[name] = value;
    render();
  }

  // --- colours

  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  function paint(theme) {
    document.documentElement.dataset.theme = theme;
    const next = theme === "dark" ? "light" : "dark";
    $("theme").textContent = capital(next);
    $("theme").setAttribute("aria-label", `Change to ${next} colours`);
  }
  $("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", theme);
    } catch { /* not remembered, then */ }
    paint(theme);
    render();
  });
  system.addEventListener("change", () => {
    if (!stored()) {
      paint(system.matches ? "dark" : "light");
      render();
    }
  });

  // --- begin

  for (const name of ["level", "measure", "chunk", "scale"]) $(name).addEventListener("change", (e) => choose(name, e.target.value));
  $("download").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([$("records").textContent], { type: "application/json" }));
    element("a", { href: url, download: "seamstream-records.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(state)) if (given.get(name)) state[name] = given.get(name);
  if (!["cpu_time", "throughput"].includes(state.measure)) state.measure = "cpu_time";
  if (!["linear", "log"].includes(state.scale)) state.scale = "linear";
  for (const name of (given.get("engines") ?? "").split("\n").filter(Boolean)) hiddenEngines.add(name);
  for (const name of (given.get("workloads") ?? "").split("\n").filter(Boolean)) hiddenWorkloads.add(name);
  let width = compact();
  window.addEventListener("resize", () => {
    if (width !== compact()) {
      width = compact();
      render();
    }
  });
  paint(stored() ?? (system.matches ? "dark" : "light"));
  $("filters").open = false;
  render();
})();
