//! `get` and `get_many`: values out of a payload, the rest checked but not built.
//!
//! What a stream's payloads have in common is remembered in its context, for a few paths and for a
//! few groups of them. Paths are compiled by `seamstream.paths`, and kept by identity: a literal is one object.

use crate::errors;
use crate::raw::{Batch, Object, Raised, Strong, guard_py, held, new_ascii, new_bytes, new_utf8};
use crate::value::Text;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use seamstream::get::{Found, Malformed, Many, Memo, Path, Segment, find};
use std::cell::{Cell, RefCell};

/// How many paths a stream remembers, each with what stands around its value.
const MEMOS: usize = 4;

/// How many compiled paths are kept for all streams, and how many groups of them.
const PATHS: usize = 16;

/// So many values are found without memory of their own.
const FEW: usize = 8;

/// The paths that a stream's events were asked for; nothing while somebody uses them.
///
/// One pointer, as every stream has it.
#[derive(Default)]
pub(crate) struct Memos(Cell<Option<Box<Asked>>>);

/// The paths of `get`, and the groups of `get_many`.
#[derive(Default)]
struct Asked {
    one: Vec<(Strong, Memo)>,
    many: Vec<Known>,
}

impl Memos {
    /// The value at a path that was asked for before, if that is a short string of ASCII and all
    /// else is as in a payload before.
    #[inline(always)]
    fn find_short<'a>(&self, text: &'a [u8], path: Object) -> Option<&'a [u8]> {
        self.with(path, |memo| memo.find_short(text))?
    }

    /// The value at a path that was asked for before, where that has found nothing.
    #[inline(always)]
    fn find_long<'a>(
        &self,
        text: &'a [u8],
        is_utf8: bool,
        path: Object,
    ) -> Option<Result<Option<Found<'a>>, Malformed>> {
        self.with(path, |memo| memo.find_long(text, is_utf8))
    }

    /// Uses the memo of a path; None when there is none to be had.
    #[inline(always)]
    fn with<T>(&self, path: Object, find: impl FnOnce(&mut Memo) -> T) -> Option<T> {
        let mut asked = self.0.take()?;
        let memo = asked.one.iter_mut().find(|(known, _)| known.as_ptr() == path);
        let found = memo.map(|(_, memo)| find(memo));
        self.0.set(Some(asked));
        found
    }

    /// Remembers a path, in place of the oldest one.
    #[cold]
    fn remember(&self, object: Strong, path: &Path) {
        let mut asked = self.0.take().unwrap_or_default();
        let memos = &mut asked.one;
        let dropped = if let Some(at) = memos.iter().position(|(_, memo)| memo.path() == path) {
            // An equal path by another object, which is the one to look for from now on.
            Some(std::mem::replace(&mut memos[at].0, object))
        } else {
            let oldest = (memos.len() == MEMOS).then(|| memos.remove(0).0);
            memos.push((object, Memo::new(path.clone())));
            oldest
        };
        drop(self.0.replace(Some(asked)));
        drop(dropped);
    }

    /// Takes out a group that was asked for before.
    #[inline(always)]
    fn take_group(&self, paths: Object) -> Option<Known> {
        let mut asked = self.0.take()?;
        let known = take_known(&mut asked.many, paths);
        self.0.set(Some(asked));
        known
    }

    /// Puts a group in, or back.
    #[inline(always)]
    fn put_group(&self, group: Known) {
        let mut asked = self.0.take().unwrap_or_default();
        let dropped = put_known(&mut asked.many, group, MEMOS);
        drop(self.0.replace(Some(asked)));
        drop(dropped);
    }
}

/// Compiled paths, oldest first. With the GIL, which keeps all others out.
struct Compiled(RefCell<Vec<(Strong, Path)>>);

// SAFETY: reached with the GIL held only; a second user is told by `RefCell`.
unsafe impl Sync for Compiled {}

static COMPILED: Compiled = Compiled(RefCell::new(Vec::new()));

/// A group of compiled paths, and the tuple of these.
type Known = (Strong, Box<Many>);

/// Groups, the one used last at the end, which remember no payloads. As `Compiled`.
struct Groups(RefCell<Vec<Known>>);

// SAFETY: reached with the GIL held only; a second user is told by `RefCell`.
unsafe impl Sync for Groups {}

static GROUPS: Groups = Groups(RefCell::new(Vec::new()));

/// Whether two paths are one object or equal exact `str`, which run no code to be compared.
fn is_same(known: Object, path: Object) -> bool {
    // SAFETY: live objects.
    unsafe {
        known == path
            || (ffi::PyUnicode_CheckExact(known) != 0
                && ffi::PyUnicode_CheckExact(path) != 0
                && ffi::PyUnicode_Compare(known, path) == 0)
    }
}

/// A path as `compile_path` gives it.
type Steps = Vec<(Option<String>, Option<usize>)>;

fn path_of(steps: Steps) -> Path {
    let segment = |step| match step {
        (Some(name), Some(index)) => Some(Segment::Either(String::into(name), index)),
        (Some(name), None) => Some(Segment::Key(name.into())),
        (None, Some(index)) => Some(Segment::Index(index)),
        (None, None) => None,
    };
    steps.into_iter().filter_map(segment).collect()
}

/// The compiled form of an exact `str` or `tuple`, or of anything else that may be a path.
fn compiled(path: Object) -> Result<Path, Raised> {
    if let Ok(paths) = COMPILED.0.try_borrow()
        && let Some((_, compiled)) = paths.iter().find(|(known, _)| is_same(known.as_ptr(), path))
    {
        return Ok(compiled.clone());
    }
    let mut steps = Steps::new();
    compile(path, Functions::of_one, &mut steps)?;
    let compiled = path_of(steps);
    if may_be_kept(path) {
        let mut dropped = None;
        if let Ok(mut paths) = COMPILED.0.try_borrow_mut() {
            if paths.len() == PATHS {
                dropped = Some(paths.remove(0));
            }
            // SAFETY: a live object.
            paths.push((unsafe { Strong::borrowed(path) }, compiled.clone()));
        }
        drop(dropped);
    }
    Ok(compiled)
}

/// Whether an object is just a path: one of a subclass may refer to anything, and live too long.
fn may_be_kept(path: Object) -> bool {
    // SAFETY: a live object, and a tuple where it is read.
    unsafe {
        let is_plain =
            |part| ffi::PyUnicode_CheckExact(part) != 0 || ffi::PyLong_CheckExact(part) != 0;
        ffi::PyUnicode_CheckExact(path) != 0
            || (ffi::PyTuple_CheckExact(path) != 0
                && (0..ffi::PyTuple_GET_SIZE(path))
                    .all(|at| is_plain(ffi::PyTuple_GET_ITEM(path, at))))
    }
}

/// What `seamstream.paths` does with a path or with several: to compile and to walk.
pub(crate) struct Functions {
    one: [Py<PyAny>; 2],
    many: [Py<PyAny>; 2],
}

impl Functions {
    fn new(py: Python<'_>) -> PyResult<&'static Self> {
        static FUNCTIONS: PyOnceLock<Functions> = PyOnceLock::new();
        FUNCTIONS.get_or_try_init(py, || {
            let module = py.import("seamstream.paths")?;
            let function = |name| Ok::<_, PyErr>(module.getattr(name)?.unbind());
            Ok(Functions {
                one: [function("compile_path")?, function("walk")?],
                many: [function("compile_paths")?, function("walk_all")?],
            })
        })
    }

    pub fn of_one(&self) -> &[Py<PyAny>; 2] {
        &self.one
    }

    pub fn of_many(&self) -> &[Py<PyAny>; 2] {
        &self.many
    }
}

/// Compiles what the caller keeps alive.
#[cold]
fn compile<T>(
    path: Object,
    functions: fn(&Functions) -> &[Py<PyAny>; 2],
    steps: &mut T,
) -> Result<(), Raised>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    let done = guard_py(|py| {
        // SAFETY: the caller keeps the path alive.
        let path = unsafe { Bound::from_borrowed_ptr(py, path) };
        let compiled = functions(Functions::new(py)?)[0].bind(py).call1((path,))?;
        *steps = compiled.extract()?;
        Ok(compiled)
    });
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Strong::owned(done) }.map(drop)
}

/// Takes out the group of a tuple, or of one that has the same paths.
#[inline(always)]
fn take_known(groups: &mut Vec<Known>, paths: Object) -> Option<Known> {
    // SAFETY: live objects, and tuples where they are read.
    let is_known = |known: Object| unsafe {
        known == paths
            || (ffi::PyTuple_CheckExact(paths) != 0
                && ffi::PyTuple_GET_SIZE(paths) == ffi::PyTuple_GET_SIZE(known)
                && (0..ffi::PyTuple_GET_SIZE(paths)).all(|at| {
                    is_same(ffi::PyTuple_GET_ITEM(known, at), ffi::PyTuple_GET_ITEM(paths, at))
                }))
    };
    let at = groups.iter().rposition(|(known, _)| is_known(known.as_ptr()))?;
    Some(groups.remove(at))
}

/// Whether a group is a tuple of just paths, and so may be kept.
fn all_may_be_kept(paths: Object) -> bool {
    // SAFETY: a live object, and a tuple where it is read.
    unsafe {
        ffi::PyTuple_CheckExact(paths) != 0
            && (0..ffi::PyTuple_GET_SIZE(paths))
                .all(|at| may_be_kept(ffi::PyTuple_GET_ITEM(paths, at)))
    }
}

/// Puts a group in that may be kept, and gives what has to go.
#[inline(always)]
fn put_known(groups: &mut Vec<Known>, group: Known, most: usize) -> Option<Known> {
    let oldest = (groups.len() == most).then(|| groups.remove(0));
    groups.push(group);
    oldest
}

/// The paths of a tuple, compiled; remembers no payload.
#[cold]
fn group(paths: Strong) -> Result<Known, Raised> {
    if let Ok(mut groups) = GROUPS.0.try_borrow_mut()
        && let Some(known) = take_known(&mut groups, paths.as_ptr())
    {
        return Ok(known);
    }
    let mut steps = Vec::<Steps>::new();
    compile(paths.as_ptr(), Functions::of_many, &mut steps)?;
    Ok((paths, Box::new(steps.into_iter().map(path_of).collect())))
}

#[cold]
fn keep(mut group: Known) {
    group.1.forget();
    let Ok(mut groups) = GROUPS.0.try_borrow_mut() else { return };
    let dropped = put_known(&mut groups, group, PATHS);
    drop(groups);
    drop(dropped);
}

/// The value at `path`, or `default`. `is_utf8`: the payload is known to be well-formed.
///
/// # Safety
/// `path` and `default` are live objects, and stay so.
#[inline(always)]
pub(crate) unsafe fn get(
    text: Text,
    is_utf8: bool,
    memos: Option<&Memos>,
    path: Object,
    default: Object,
) -> Result<Strong, Raised> {
    if let Some(content) = memos.and_then(|memos| memos.find_short(text.raw(), path)) {
        return new_ascii(content);
    }
    // SAFETY: the caller's promise.
    unsafe { get_long(text, is_utf8, memos, path, default) }
}

/// As [`get`], where it was not that simple.
///
/// # Safety
/// As of [`get`].
#[inline(never)]
unsafe fn get_long(
    text: Text,
    is_utf8: bool,
    memos: Option<&Memos>,
    path: Object,
    default: Object,
) -> Result<Strong, Raised> {
    let found = match memos.and_then(|memos| memos.find_long(text.raw(), is_utf8, path)) {
        Some(found) => found,
        None => {
            let compiled = compiled(path)?;
            if let Some(memos) = memos
                && may_be_kept(path)
            {
                // SAFETY: a live object.
                memos.remember(unsafe { Strong::borrowed(path) }, &compiled);
            }
            find(text.raw(), &compiled)
        }
    };
    match found {
        // SAFETY: the caller's promise.
        Ok(found) => unsafe { object_of(found, default) },
        Err(malformed) => Err(refuse(text, malformed)),
    }
}

/// The values at the paths of a tuple or list, each or `default`; else as [`get`].
///
/// # Safety
/// `paths` and `default` are live objects, and stay so.
pub(crate) unsafe fn get_many(
    text: Text,
    is_utf8: bool,
    memos: Option<&Memos>,
    paths: Object,
    default: Object,
) -> Result<Strong, Raised> {
    // SAFETY: a live object; an exact list gives a tuple without running any code.
    let paths = unsafe {
        if ffi::PyList_CheckExact(paths) != 0 {
            Strong::owned(ffi::PyList_AsTuple(paths))?
        } else {
            Strong::borrowed(paths)
        }
    };
    let known = memos.and_then(|memos| memos.take_group(paths.as_ptr()));
    // What was kept may be kept again.
    let is_kept = known.is_some() || all_may_be_kept(paths.as_ptr());
    let (paths, mut many) = match known {
        Some(known) => known,
        None => {
            let (paths, many) = group(paths)?;
            if memos.is_some() && is_kept {
                // SAFETY: a live object.
                keep((unsafe { Strong::borrowed(paths.as_ptr()) }, many.clone()));
            }
            (paths, many)
        }
    };
    let mut few = [None; FEW];
    let mut more = Vec::new();
    let len = many.len();
    let found = if len <= FEW {
        &mut few[..len]
    } else {
        more.resize(len, None);
        &mut more
    };
    let outcome = many.find(text.raw(), is_utf8, found);
    match memos {
        _ if !is_kept => {}
        Some(memos) => memos.put_group((paths, many)),
        None => keep((paths, many)),
    }
    if let Err(malformed) = outcome {
        return Err(refuse(text, malformed));
    }
    let mut values = Batch::new();
    for &found in &*found {
        // SAFETY: the caller's promise.
        values.push(unsafe { object_of(found, default)? });
    }
    values.take_tuple()
}

/// What was found as a Python object, or `default`.
///
/// # Safety
/// `default` is a live object.
#[inline(always)]
unsafe fn object_of(found: Option<Found<'_>>, default: Object) -> Result<Strong, Raised> {
    match found {
        Some(Found::Ascii(content)) => new_ascii(content),
        Some(Found::Text(content)) => new_utf8(content),
        Some(Found::Json(json)) => {
            // SAFETY: live singletons.
            let (none, yes, no) = unsafe { (ffi::Py_None(), ffi::Py_True(), ffi::Py_False()) };
            let constant = match json {
                b"null" => none,
                b"true" => yes,
                b"false" => no,
                _ => {
                    let json = new_bytes(json)?;
                    // SAFETY: exact `bytes`, held meanwhile; no other parser.
                    return unsafe { Text::new(json.as_ptr(), std::ptr::null_mut()) }.parse();
                }
            };
            // SAFETY: a live object.
            Ok(unsafe { Strong::borrowed(constant) })
        }
        // SAFETY: the caller's promise.
        None => Ok(unsafe { Strong::borrowed(default) }),
    }
}

/// Raises what `json` raises for the same payload.
#[cold]
fn refuse(text: Text, malformed: Malformed) -> Raised {
    match text.parse() {
        Err(Raised) => text.explain_refusal(),
        Ok(_) => held(|py| {
            errors::new(py, "JSONDecodeError", ("not JSON", malformed.offset)).restore(py);
        }),
    }
    Raised
}

/// `walk(json(), compile_path(path), default)`, or the same of several paths: for another parser
/// than orjson, and for what has no value. A wrong path is told before that.
///
/// # Safety
/// `path` and `default` are live objects, and stay so.
#[cold]
pub(crate) unsafe fn walk(
    json: impl FnOnce() -> Result<Strong, Raised>,
    functions: fn(&Functions) -> &[Py<PyAny>; 2],
    path: Object,
    default: Object,
) -> Result<Strong, Raised> {
    let walked = guard_py(|py| {
        // SAFETY: the caller's promise.
        let (path, default) =
            unsafe { (Bound::from_borrowed_ptr(py, path), Bound::from_borrowed_ptr(py, default)) };
        let [compile, walk] = functions(Functions::new(py)?);
        let steps = compile.bind(py).call1((path,))?;
        let value = json().map_err(|Raised| PyErr::fetch(py))?;
        walk.bind(py).call1((value.bind(py), steps, default))
    });
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Strong::owned(walked) }
}

/// The arguments of `get(path, /, default=None)` and `get_many(paths, /, default=None)`.
///
/// # Safety
/// They are those of a method with `METH_FASTCALL | METH_KEYWORDS`.
#[inline(always)]
pub(crate) unsafe fn arguments(
    function: &str,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Result<(Object, Object), Raised> {
    // SAFETY: the caller's promise: `count` positional arguments, then one for each name.
    unsafe {
        let by_name = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        match (count, by_name) {
            (1, 0) => Ok((*args, ffi::Py_None())),
            (2, 0) => Ok((*args, *args.add(1))),
            (1, 1) if is_default(ffi::PyTuple_GET_ITEM(names, 0)) => Ok((*args, *args.add(1))),
            _ => {
                held(|py| {
                    PyTypeError::new_err(format!("{function} and, at will, a default")).restore(py);
                });
                Err(Raised)
            }
        }
    }
}

/// # Safety
/// `name` is a live `str`.
unsafe fn is_default(name: Object) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::PyUnicode_CompareWithASCIIString(name, c"default".as_ptr()) == 0 }
}
