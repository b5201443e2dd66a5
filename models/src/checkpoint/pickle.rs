//! Tensors that PyTorch saved: a ZIP archive with a pickle that names them and a file for the numbers of each.
//!
//! A pickle is a program, and elsewhere reading one runs it. Here it can do nothing but put tensors into dictionaries:
//! of all instructions those are known with which PyTorch writes state dictionaries, and of all callables those that
//! make a dictionary, a tensor or its storage. Everything else is refused by its name.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::rc::Rc;

use omni_backend::host::DType;
use zip::{CompressionMethod, ZipArchive};

use super::info::{Content, TensorInfo};
use super::problem::Problem;

/// Longest pickle: that of a state dictionary has some hundred bytes for a tensor.
const LONGEST: u64 = 1 << 20;
/// Most tensors of an archive.
const MOST: usize = 1 << 16;
/// Dictionaries within each other, at most.
const DEEPEST: usize = 4;
/// Dimensions of a tensor, at most.
const MOST_DIMENSIONS: usize = 8;

/// Value on a pickle's stack. Tuples and dictionaries are in lists of their own, so nothing is nested.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Nothing,
    Number(i64),
    Text(Rc<str>),
    Tuple(usize),
    Dict(usize),
    Callable(Callable),
    Storage(Storage),
    Tensor(Tensor),
}

#[derive(Debug, Clone, PartialEq)]
enum Callable {
    Dictionary,
    Tensor,
    Parameter,
    /// The type of a storage's numbers.
    Numbers(DType),
}

#[derive(Debug, Clone, PartialEq)]
struct Storage {
    dtype: DType,
    /// Name of its file in the archive's folder of data.
    key: Rc<str>,
}

/// A tensor as the pickle describes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    storage: Storage,
    /// Elements of the storage before it.
    offset: u64,
    shape: Vec<usize>,
}

fn callable(module: &str, name: &str) -> Option<Callable> {
    let numbers = |dtype| Some(Callable::Numbers(dtype));
    match (module, name) {
        ("collections", "OrderedDict") => Some(Callable::Dictionary),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Callable::Tensor),
        ("torch._utils", "_rebuild_parameter") => Some(Callable::Parameter),
        ("torch", "FloatStorage") => numbers(DType::F32),
        ("torch", "HalfStorage") => numbers(DType::F16),
        ("torch", "BFloat16Storage") => numbers(DType::Bf16),
        ("torch", "LongStorage" | "IntStorage" | "DoubleStorage" | "BoolStorage" | "ByteStorage") => {
            numbers(DType::Other(name.to_owned()))
        }
        _ => None,
    }
}

/// The instructions of a pickle that are left, and what they have made.
struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    tuples: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Rc<str>, Value)>>,
}

/// Tensors by name, and values that were looked at for them.
#[derive(Default)]
struct Found {
    tensors: BTreeMap<String, Tensor>,
    visited: usize,
}

type Read_<T> = Result<T, String>;

fn cut() -> String {
    "the pickle is cut short".into()
}

fn unexpected() -> String {
    "the pickle does something else than putting tensors into dictionaries".into()
}

impl<'a> Machine<'a> {
    fn bytes(&mut self, count: usize) -> Read_<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self) -> Read_<u32> {
        let bytes = self.bytes(N)?;
        Ok(bytes.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b)))
    }

    fn line(&mut self) -> Read_<&'a str> {
        let end = self.rest.iter().position(|b| *b == b'\n').ok_or_else(cut)?;
        let line = self.bytes(end + 1)?;
        std::str::from_utf8(&line[..end]).map_err(|_| unexpected())
    }

    fn pop(&mut self) -> Read_<Value> {
        let least = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= least {
            return Err(unexpected());
        }
        self.stack.pop().ok_or_else(unexpected)
    }

    fn since_mark(&mut self) -> Read_<Vec<Value>> {
        let mark = self.marks.pop().ok_or_else(unexpected)?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, values: Vec<Value>) {
        self.tuples.push(values);
        self.stack.push(Value::Tuple(self.tuples.len() - 1));
    }

    fn dict(&mut self) {
        self.dicts.push(Vec::new());
        self.stack.push(Value::Dict(self.dicts.len() - 1));
    }

    fn set(&mut self, pairs: &[Value]) -> Read_<()> {
        let Some(&Value::Dict(dict)) = self.stack.last() else {
            return Err(unexpected());
        };
        for pair in pairs.chunks(2) {
            match pair {
                [Value::Text(key), value] => self.dicts[dict].push((key.clone(), value.clone())),
                _ => return Err(unexpected()),
            }
        }
        Ok(())
    }

    fn items(&self, value: &Value) -> Read_<&[Value]> {
        match value {
            Value::Tuple(tuple) => Ok(&self.tuples[*tuple]),
            _ => Err(unexpected()),
        }
    }

    fn sizes(&self, value: &Value) -> Read_<Vec<usize>> {
        let items = self.items(value)?;
        let size = |item: &Value| match item {
            Value::Number(n) => usize::try_from(*n).map_err(|_| unexpected()),
            _ => Err(unexpected()),
        };
        if items.len() > MOST_DIMENSIONS {
            return Err(format!(
                "a tensor has {} dimensions, at most {MOST_DIMENSIONS} are possible",
                items.len()
            ));
        }
        items.iter().map(size).collect()
    }

    /// `(storage, offset, shape, strides, ...)`.
    fn tensor(&self, arguments: &[Value]) -> Read_<Value> {
        let [Value::Storage(storage), Value::Number(offset), shape, strides, ..] = arguments else {
            return Err(unexpected());
        };
        let shape = self.sizes(shape)?;
        let strides = self.sizes(strides)?;
        let mut next = 1_usize;
        for (size, stride) in shape.iter().zip(&strides).rev() {
            if *size != 1 && *stride != next {
                return Err(format!(
                    "a tensor of shape {shape:?} is stored with strides {strides:?}, not row by row"
                ));
            }
            next = next
                .checked_mul(*size)
                .ok_or_else(|| format!("a tensor has shape {shape:?}"))?;
        }
        Ok(Value::Tensor(Tensor {
            storage: storage.clone(),
            offset: u64::try_from(*offset).map_err(|_| unexpected())?,
            shape,
        }))
    }

    fn call(&mut self) -> Read_<()> {
        let arguments = self.pop()?;
        let callable = self.pop()?;
        match callable {
            Value::Callable(Callable::Dictionary) if self.items(&arguments)?.is_empty() => self.dict(),
            Value::Callable(Callable::Tensor) => {
                let tensor = self.tensor(self.items(&arguments)?)?;
                self.stack.push(tensor);
            }
            Value::Callable(Callable::Parameter) => match self.items(&arguments)? {
                [tensor @ Value::Tensor(_), ..] => self.stack.push(tensor.clone()),
                _ => return Err(unexpected()),
            },
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    /// `('storage', type, key, place, count)`.
    fn storage(&mut self) -> Read_<()> {
        let arguments = self.pop()?;
        let storage = match self.items(&arguments)? {
            [
                Value::Text(kind),
                Value::Callable(Callable::Numbers(dtype)),
                Value::Text(key),
                ..,
            ] if **kind == *"storage" => Storage {
                dtype: dtype.clone(),
                key: key.clone(),
            },
            _ => return Err(unexpected()),
        };
        self.stack.push(Value::Storage(storage));
        Ok(())
    }

    fn remember(&mut self, place: u32) -> Read_<()> {
        let value = self.stack.last().ok_or_else(unexpected)?.clone();
        self.memo.insert(place, value);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Read_<()> {
        let value = self.memo.get(&place).ok_or_else(unexpected)?.clone();
        self.stack.push(value);
        Ok(())
    }

    /// Runs to the end.
    fn run(&mut self) -> Read_<Value> {
        loop {
            let [code] = self.bytes(1)? else {
                return Err(cut());
            };
            match code {
                0x80 => drop(self.bytes(1)?),
                b'}' => self.dict(),
                b')' => self.tuple(Vec::new()),
                b'(' => self.marks.push(self.stack.len()),
                b'N' | 0x88 | 0x89 => self.stack.push(Value::Nothing),
                b'q' => {
                    let place = self.number::<1>()?;
                    self.remember(place)?;
                }
                b'r' => {
                    let place = self.number::<4>()?;
                    self.remember(place)?;
                }
                b'h' => {
                    let place = self.number::<1>()?;
                    self.recall(place)?;
                }
                b'j' => {
                    let place = self.number::<4>()?;
                    self.recall(place)?;
                }
                b'X' => {
                    let len = self.number::<4>()?;
                    let text = self.bytes(len as usize)?;
                    let text = std::str::from_utf8(text).map_err(|_| unexpected())?;
                    self.stack.push(Value::Text(text.into()));
                }
                b'K' => {
                    let number = self.number::<1>()?;
                    self.stack.push(Value::Number(number.into()));
                }
                b'M' => {
                    let number = self.number::<2>()?;
                    self.stack.push(Value::Number(number.into()));
                }
                b'J' => {
                    let number = self.number::<4>()?.cast_signed();
                    self.stack.push(Value::Number(number.into()));
                }
                0x8a => {
                    let len = self.number::<1>()? as usize;
                    let bytes = self.bytes(len)?;
                    if len > 7 {
                        return Err(unexpected());
                    }
                    let number = bytes.iter().rev().fold(0, |n, &b| n << 8 | i64::from(b));
                    self.stack.push(Value::Number(number));
                }
                b't' => {
                    let values = self.since_mark()?;
                    self.tuple(values);
                }
                0x85..=0x87 => {
                    let count = usize::from(code - 0x84);
                    let values = (0..count).map(|_| self.pop()).collect::<Read_<Vec<_>>>()?;
                    self.tuple(values.into_iter().rev().collect());
                }
                b'c' => {
                    let module = self.line()?;
                    let name = self.line()?;
                    let known = callable(module, name);
                    let refused = || format!("the pickle calls {module:?} {name:?}, which is not of tensors");
                    self.stack.push(Value::Callable(known.ok_or_else(refused)?));
                }
                b'R' => self.call()?,
                b'Q' => self.storage()?,
                b's' => {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.set(&[key, value])?;
                }
                b'u' => {
                    let pairs = self.since_mark()?;
                    self.set(&pairs)?;
                }
                // The state of a dictionary: versions of its modules.
                b'b' => match (self.pop()?, self.stack.last()) {
                    (Value::Dict(_), Some(Value::Dict(_))) => {}
                    _ => return Err(unexpected()),
                },
                b'.' => return self.pop(),
                other => {
                    return Err(format!(
                        "the pickle has instruction {other:#04x}, which is not of tensors"
                    ));
                }
            }
            if self.stack.len() > MOST * 4 {
                return Err("the pickle has too many values".into());
            }
        }
    }

    fn collect(&self, value: &Value, name: &str, depth: usize, found: &mut Found) -> Read_<()> {
        found.visited += 1;
        if found.visited > MOST {
            return Err(format!("there are more than {MOST} tensors"));
        }
        match value {
            Value::Tensor(tensor) => {
                found.tensors.insert(name.to_owned(), tensor.clone());
                Ok(())
            }
            Value::Dict(dict) if depth < DEEPEST => {
                for (key, value) in &self.dicts[*dict] {
                    let dot = if name.is_empty() { "" } else { "." };
                    self.collect(value, &format!("{name}{dot}{key}"), depth + 1, found)?;
                }
                Ok(())
            }
            _ => Err(format!("{name:?} is no tensor and no dictionary of tensors")),
        }
    }
}

/// The tensors of a pickle, by their names in the dictionaries; one alone has the empty name.
pub(super) fn tensors(pickle: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    let mut machine = Machine {
        rest: pickle,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        tuples: Vec::new(),
        dicts: Vec::new(),
    };
    let value = machine.run()?;
    let mut found = Found::default();
    machine.collect(&value, "", 0, &mut found)?;
    Ok(found.tensors)
}

/// The tensors of an archive with their places in the file `name`.
pub(super) fn read(name: &str, file: File) -> Result<BTreeMap<String, TensorInfo>, Problem> {
    let malformed = |reason: String| Problem::Malformed {
        file: name.to_owned(),
        reason,
    };
    let broken = |e: zip::result::ZipError| malformed(format!("not an archive of tensors: {e}"));
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut pickle = Vec::new();
    let mut places = HashMap::new();
    for i in 0..archive.len() {
        let entry = archive.by_index_raw(i).map_err(broken)?;
        let path = entry.name().map_err(broken)?.into_owned();
        let size = entry.size();
        let begin = entry.data_start();
        let inside = path.split_once('/').map_or("", |(_, inside)| inside);
        if entry.compression() != CompressionMethod::Stored {
            return Err(malformed(format!("{path} is compressed")));
        }
        if inside == "data.pkl" {
            if size > LONGEST {
                return Err(malformed(format!(
                    "{path} has {size} bytes, at most {LONGEST} are possible"
                )));
            }
            let read = entry.take(LONGEST).read_to_end(&mut pickle);
            read.map_err(|e| malformed(format!("{path} cannot be read: {e}")))?;
        } else if let (Some(key), Some(begin)) = (inside.strip_prefix("data/"), begin) {
            places.insert(key.to_owned(), (begin, size));
        }
    }
    if pickle.is_empty() {
        return Err(malformed("the archive has no data.pkl".into()));
    }
    let found = tensors(&pickle).map_err(malformed)?;
    let placed = |(tensor, found): (String, Tensor)| {
        let Some(&(begin, size)) = places.get(&*found.storage.key) else {
            return Err(malformed(format!(
                "tensor {tensor}: the archive has no data/{}",
                found.storage.key
            )));
        };
        let width = found.storage.dtype.width().unwrap_or(0);
        let bytes = |count: u64| count.checked_mul(width);
        let elements = found
            .shape
            .iter()
            .try_fold(1_u64, |n, &size| n.checked_mul(size as u64));
        let from = bytes(found.offset);
        let to = from
            .zip(elements.and_then(bytes))
            .and_then(|(from, len)| from.checked_add(len));
        let (Some(from), Some(to)) = (from, to.filter(|to| *to <= size)) else {
            return Err(malformed(format!(
                "tensor {tensor} reaches beyond the {size} bytes of its data"
            )));
        };
        let info = TensorInfo {
            file: name.to_owned(),
            dtype: found.storage.dtype,
            shape: found.shape,
            content: Content::Stored {
                begin: begin + from,
                end: begin + to,
            },
        };
        Ok((tensor, info))
    };
    found.into_iter().map(placed).collect()
}
