// Times Node's eventsource-parser on the work that node.py has written.
//
// usage: node eventsource_parser.mjs FOLDER-OF-NODE_MODULES WORK.json
//
// Prints one JSON object for each cell: what came out is compared first, as for every engine.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";

const [folder, file] = process.argv.slice(2);
const { createParser } = createRequire(join(folder, "here.js"))("eventsource-parser");
const WARM_UP_MS = 150;
const ROUND_MS = 5;
const ROUNDS = 9;

function run(streams, onEvent) {
  for (const chunks of streams) {
    const decoder = new TextDecoder();
    const parser = createParser({ onEvent });
    for (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }));
    parser.feed(decoder.decode());
  }
}

function cut({ bytes, lengths }) {
  const body = Buffer.from(bytes, "base64");
  let at = 0;
  return lengths.map((length) => body.subarray(at, (at += length)));
}

function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function check(streams, level, wanted) {
  const found = [];
  run(streams, ({ event, data }) => {
    found.push(level === "json" ? JSON.parse(data) : [event ?? "message", data]);
  });
  const right = level === "json" ? wanted.map(([, data]) => JSON.parse(data)) : wanted;
  if (found.length < right.length) {
    return ["lost", `${found.length} of ${right.length} items came out`];
  }
  return isDeepStrictEqual(found, right) ? ["ok", ""] : ["wrong", "not what was sent"];
}

function time(streams, level) {
  let kept = 0;
  const text = ({ data }) => void (kept += data.length);
  const json = ({ data }) => void (kept += JSON.parse(data) === null);
  const onEvent = level === "json" ? json : text;
  const start = cpuMs();
  let warm = 0;
  while (cpuMs() - start < WARM_UP_MS) {
    run(streams, onEvent);
    warm += 1;
  }
  const times = Math.max(1, Math.round((ROUND_MS * warm) / WARM_UP_MS));
  const seconds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = cpuMs();
    for (let at = 0; at < times; at += 1) run(streams, onEvent);
    seconds.push((cpuMs() - before) / 1000 / times);
  }
  if (!Number.isFinite(kept)) throw new Error("nothing was read");
  return seconds;
}

for (const { streams, wanted, ...cell } of JSON.parse(readFileSync(file, "utf8"))) {
  const chunks = streams.map(cut);
  let [verdict, detail] = ["error", ""];
  try {
    [verdict, detail] = check(chunks, cell.level, wanted);
  } catch (error) {
    detail = String(error).slice(0, 200);
  }
  const seconds = verdict === "ok" ? time(chunks, cell.level) : [];
  console.log(JSON.stringify({ ...cell, verdict, detail, seconds }));
}
