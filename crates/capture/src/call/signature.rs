//! What is known of a traced function: how its raw record becomes arguments, outputs and a status.

use super::for_cupti::Question;
use super::origin::Named;
use super::parameter::{Parameter, parameters, sum};
use super::role::{Observed, Role, unloads};
use super::value::{little_endian, text};
use cuda::Type;
use cuda::capture::{Item, Plan, When};
use event::{Arg, Category, Layer, Name, Status, Value};

/// Words of arguments, registers and stack, that are kept: no CUDA function has more than 16
/// parameters, and structs by value are short.
pub const WORDS: usize = 24;
/// Vector registers that carry floats, after the words.
const VECTORS: usize = 8;

/// What the sum of an array of sizes is shown as.
pub const TOTAL: &str = "totalBytes";

#[derive(Debug)]
pub struct Signature {
    pub name: Name,
    pub layer: Layer,
    pub category: Category,
    pub role: Role,
    pub observed: Observed,
    /// Handles of kernels may mean others after it.
    pub unloads: bool,
    pub question: Question,
    /// It is one of our own calls, which NVTX's come down to.
    pub nvtx: Option<&'static cuda::nvtx::Function>,
    /// Likewise, for a framework's operators.
    pub operator: Option<&'static cuda::operators::Function>,
    /// Hooked for what it tells of other calls, and not asked for.
    pub hidden: bool,
    /// Which parameter names the device that the call is about.
    device: Option<usize>,
    /// 0 means the thread's own default stream.
    per_thread: bool,
    /// It works on the default stream without naming it.
    on_default_stream: bool,
    parameters: Vec<Parameter>,
    /// Which of them is the stream.
    stream: Option<usize>,
    /// Some of them are texts, which may have been cut.
    pub has_texts: bool,
    /// One of them describes a launch.
    pub has_config: bool,
    /// Something comes back.
    has_outputs: bool,
    /// It may describe a node of a graph.
    pub of_graph: bool,
    /// Words of arguments up to the last one that a parameter is in.
    in_registers: usize,
    /// Which words lie where in the payload.
    words: Vec<(usize, usize)>,
    /// Where in the payload what was returned is, and how long it is: 8 bytes, or a text.
    returned: Option<(usize, usize)>,
    /// Where in the payload the sum of an array of sizes is.
    sum: Option<usize>,
    returns: Returns,
    /// The name of status 0, which nearly all calls return.
    success: Option<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returns {
    Status,
    /// Nothing, or something that is no status.
    Other,
}

/// The words of a call's arguments; those that were not captured are missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Words {
    values: [u64; WORDS + VECTORS],
    /// A bit for each that is there.
    known: u32,
}

impl Words {
    pub fn get(&self, index: usize) -> Option<u64> {
        let known = self.known.checked_shr(index.try_into().ok()?)? & 1 == 1;
        known.then(|| self.values.get(index).copied())?
    }

    /// The low half of a vector register.
    pub fn vector(&self, register: usize) -> Option<u64> {
        self.get(WORDS.checked_add(register)?)
    }

    /// Whether it was another.
    #[inline]
    fn set(&mut self, index: usize, value: u64) -> bool {
        let Some(word) = self.values.get_mut(index) else {
            return false;
        };
        self.known |= 1 << index;
        std::mem::replace(word, value) != value
    }
}

impl Signature {
    /// `plan` is what is captured of its calls.
    pub fn new(named: &Named, plan: &Plan) -> Self {
        let name = &*named.name;
        let major = named.library.as_deref().and_then(cuda::runtime_version);
        let table = match major {
            Some(major) => cuda::runtime_function(major, name),
            None => cuda::function(name),
        };
        let mut words = Vec::new();
        let mut returned = None;
        for (start, item) in plan.placed() {
            match item {
                Item::Arg { index } => words.push((usize::from(index), start)),
                Item::Vector { register } => words.push((WORDS + usize::from(register), start)),
                Item::Returned => returned = Some((start, 8)),
                Item::ReturnedText { bytes } => returned = Some((start, usize::from(bytes))),
                _ => {}
            }
        }
        let parameters = table.map_or(Vec::new(), |table| parameters(table, plan));
        let status = match table {
            Some(table) => matches!(table.returns.text, "CUresult" | "cudaError_t"),
            // Libraries return codes of their own; what CUDA's unknown internals return is unknown.
            None => !name.starts_with("__"),
        };
        Signature {
            name: named.name.clone(),
            layer: cuda::layer(name),
            category: cuda::category(name),
            role: Role::of(name),
            observed: Observed::of(name),
            unloads: unloads(name),
            question: Question::of(name),
            nvtx: cuda::nvtx::by_name(name),
            operator: cuda::operators::by_name(name),
            hidden: false,
            device: names_device(&parameters),
            per_thread: cuda::without_stream_suffix(name) != name,
            on_default_stream: works_on_default_stream(name),
            stream: parameters.iter().position(|one| is_stream(one.kind)),
            has_texts: parameters.iter().any(Parameter::is_text),
            has_config: parameters.iter().any(|one| &*one.name == "config"),
            has_outputs: returned.is_some()
                || (parameters.iter()).any(|one| one.read_at() == Some(When::Exit)),
            of_graph: name.contains("Graph"),
            in_registers: (parameters.iter().map(Parameter::words_end).max()).unwrap_or(0),
            parameters,
            words,
            returned,
            sum: sum(plan),
            success: cuda::result_name(cuda::layer(name), 0).map(Name::from),
            returns: if status {
                Returns::Status
            } else {
                Returns::Other
            },
        }
    }

    /// The words of the arguments, from the call's own slot and from its payload, in the place of another call's. False:
    /// they are the same.
    pub fn read_words(&self, args: [u64; 4], payload: &[u8], words: &mut Words) -> bool {
        let before = std::mem::take(&mut words.known);
        let mut differ = false;
        for (index, arg) in args.into_iter().enumerate() {
            // What is in registers that it takes nothing from is of no interest.
            differ |= words.set(index, arg) && index < self.in_registers;
        }
        for (index, start) in &self.words {
            let bytes = payload
                .get(*start..start + 8)
                .and_then(|bytes| bytes.try_into().ok());
            if let Some(bytes) = bytes {
                differ |= words.set(*index, u64::from_le_bytes(bytes));
            }
        }
        differ || words.known != before
    }

    #[cfg(test)]
    pub fn words(&self, args: [u64; 4], payload: &[u8]) -> Words {
        let mut words = Words::default();
        self.read_words(args, payload, &mut words);
        words
    }

    /// What was passed in, in the place of another call's. Memory behind pointers is known only once the call has
    /// returned: the payload is None before.
    pub fn put_arguments(&self, words: &Words, payload: Option<&[u8]>, args: &mut Vec<Arg>) {
        args.clear();
        if self.parameters.is_empty() && self.sum.is_none() {
            return;
        }
        args.reserve(self.parameters.len() + usize::from(self.sum.is_some()));
        for parameter in self.parameters.iter().filter(|one| !one.comes_back()) {
            let value = match (parameter.read_at(), payload) {
                (Some(_), Some(payload)) => parameter.read(words, payload),
                (Some(_), None) => None,
                (None, _) => parameter.passed(words),
            };
            args.extend(value.map(|value| Arg::new(parameter.name.clone(), value)));
        }
        args.extend(payload.and_then(|payload| self.summed(payload)));
    }

    #[cfg(test)]
    pub fn arguments(&self, words: &Words, payload: Option<&[u8]>) -> Vec<Arg> {
        let mut args = Vec::new();
        self.put_arguments(words, payload, &mut args);
        args
    }

    /// The arguments that [`Signature::arguments`] could not give without the payload.
    pub fn late_arguments(&self, words: &Words, payload: &[u8]) -> Vec<Arg> {
        let mut args = Vec::new();
        self.read(words, payload, When::Enter, &mut args);
        args.extend(self.summed(payload));
        args
    }

    /// Adds what came back; worth reading after success only.
    pub fn add_outputs(&self, words: &Words, payload: &[u8], args: &mut Vec<Arg>) {
        if !self.has_outputs {
            return;
        }
        self.read(words, payload, When::Exit, args);
        let returned = self.returned.and_then(|(start, length)| {
            let bytes = payload.get(start..start + length)?;
            let value = match length {
                8 => little_endian(bytes, 8).map(Value::Pointer)?,
                _ => text(bytes),
            };
            Some(Arg::new("returned", value))
        });
        args.extend(returned);
    }

    #[cfg(test)]
    pub fn outputs(&self, words: &Words, payload: &[u8]) -> Vec<Arg> {
        let mut args = Vec::new();
        self.add_outputs(words, payload, &mut args);
        args
    }

    /// All the sizes in an array, together: of the array itself only the first elements are kept.
    fn summed(&self, payload: &[u8]) -> Option<Arg> {
        let sum = little_endian(payload.get(self.sum?..)?, 8)?;
        Some(Arg::new(TOTAL, sum))
    }

    fn read(&self, words: &Words, payload: &[u8], at: When, args: &mut Vec<Arg>) {
        let read = (self.parameters.iter())
            .filter(|parameter| parameter.read_at() == Some(at))
            .filter_map(|parameter| {
                // A null pointer asked for nothing; as an argument it is worth showing.
                if at == When::Exit && parameter.word(words)? == 0 {
                    return None;
                }
                let value = parameter.read(words, payload)?;
                Some(Arg::new(parameter.name.clone(), value))
            });
        args.extend(read);
    }

    /// The stream that is passed by value, or that a call without one works on.
    pub fn stream(&self, words: &Words) -> Option<u64> {
        let passed = (self.stream).and_then(|stream| self.parameters.get(stream));
        match passed {
            Some(passed) => passed.word(words).map(|stream| self.default_stream(stream)),
            None if self.on_default_stream => Some(self.default_stream(0)),
            None => None,
        }
    }

    /// Variants for programs built with a default stream a thread mean that one by 0.
    pub fn default_stream(&self, stream: u64) -> u64 {
        if stream == 0 && self.per_thread {
            PER_THREAD
        } else {
            stream
        }
    }

    /// The device that is asked about or worked on, where an argument names it.
    pub fn device(&self, words: &Words) -> Option<u32> {
        let device = self.device?;
        let device = self.parameters.get(device)?.word(words)? as u32;
        // Negative and absurd numbers are mistakes, or stand for something else.
        Some(device).filter(|device| *device < MOST_DEVICES)
    }

    pub fn status(&self, result: u32) -> Option<Status> {
        if self.returns == Returns::Other {
            return None;
        }
        let code = i64::from(result.cast_signed());
        let name = match code {
            0 => self.success.clone(),
            _ => cuda::result_name(self.layer, code).map(Name::from),
        };
        Some(Status { code, name })
    }

    /// Whether outputs are worth reading.
    pub fn succeeded(&self, result: u32) -> bool {
        self.returns == Returns::Other || result == 0
    }

    /// A text argument and its address, if its capture was too short for it.
    pub fn cut_text(&self, words: &Words, payload: &[u8]) -> Option<(&Name, u64)> {
        if !self.has_texts {
            return None;
        }
        let cut = |one: &Parameter| one.cut_text(words, payload);
        self.parameters
            .iter()
            .find_map(|one| Some((&one.name, cut(one)?)))
    }
}

const MOST_DEVICES: u32 = 1024;
/// `CU_STREAM_PER_THREAD`
const PER_THREAD: u64 = 2;

fn is_stream(kind: &Type) -> bool {
    matches!(kind.text, "CUstream" | "cudaStream_t" | "CUstream_st*")
}

fn names_device(parameters: &[Parameter]) -> Option<usize> {
    parameters.iter().position(|one| {
        let runtime = one.kind.text == "int" && &*one.name == "device";
        one.kind.text == "CUdevice" && matches!(&*one.name, "dev" | "device") || runtime
    })
}

/// Copies and fills that wait, and the launches of old.
fn works_on_default_stream(name: &str) -> bool {
    let family = cuda::family(name);
    let bare = family.strip_prefix("cuda").or(family.strip_prefix("cu"));
    let copies = bare.is_some_and(|rest| rest.starts_with("Memcpy") || rest.starts_with("Memset"));
    copies || matches!(family, "cuLaunch" | "cuLaunchGrid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(name: &str, library: &str) -> Signature {
        let named = Named {
            name: name.into(),
            library: Some(library.into()),
        };
        let plan = cuda::capture::plan(name, cuda::runtime_version(library));
        Signature::new(&named, &plan)
    }

    fn shown(args: &[Arg]) -> String {
        let shown: Vec<_> = args
            .iter()
            .map(|arg| format!("{}={:?}", arg.name, arg.value))
            .collect();
        shown.join(" ")
    }

    #[test]
    fn inputs_are_known_at_once_and_outputs_at_the_end() {
        let alloc = signature("cuMemAlloc_v2", "libcuda.so.1");
        let words = alloc.words([0x7ffc, 4096, 0, 0], &[]);
        assert_eq!(shown(&alloc.arguments(&words, None)), "bytesize=Uint(4096)");
        let payload = 0x7f00u64.to_le_bytes();
        assert_eq!(
            shown(&alloc.outputs(&words, &payload)),
            "dptr=Pointer(32512)"
        );
        assert_eq!(shown(&alloc.outputs(&words, &payload[..7])), "");
        let status = alloc.status(2).expect("a status");
        assert_eq!(status.name.as_deref(), Some("CUDA_ERROR_OUT_OF_MEMORY"));
    }

    #[test]
    fn arguments_past_the_fourth_come_from_the_payload() {
        let launch = signature("cudaLaunchKernel", "/x/libcudart.so.13");
        let payload: Vec<u8> = [1u64, 0x55, 512, 9]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let args = [0x400, (3 << 32) | 2, 1, (1 << 32) | 256];
        let words = launch.words(args, &payload);
        let expected = "func=Pointer(1024) gridDim=List([Uint(2), Uint(3), Uint(1)]) \
            blockDim=List([Uint(256), Uint(1), Uint(1)]) args=Pointer(85) sharedMem=Uint(512) \
            stream=Pointer(9)";
        assert_eq!(shown(&launch.arguments(&words, None)), expected);
        assert_eq!(launch.stream(&words), Some(9));
        // A payload that is not there hides what it would have held, and nothing else.
        let words = launch.words(args, &[]);
        assert!(shown(&launch.arguments(&words, None)).ends_with("Uint(3), Uint(1)])"));
    }

    #[test]
    fn names_are_read_once_the_call_has_returned() {
        let get = signature("cuModuleGetFunction", "libcuda.so.1");
        let words = get.words([0x7ffc, 0x10, 0x500, 0], &[]);
        assert_eq!(shown(&get.arguments(&words, None)), "hmod=Pointer(16)");
        let mut payload = 0x99u64.to_le_bytes().to_vec();
        payload.extend_from_slice(b"vecAdd");
        payload.resize(8 + usize::from(cuda::capture::TEXT_BYTES), 0);
        assert_eq!(
            shown(&get.late_arguments(&words, &payload)),
            "name=Str(\"vecAdd\")"
        );
        assert_eq!(
            shown(&get.arguments(&words, Some(&payload))),
            "hmod=Pointer(16) name=Str(\"vecAdd\")"
        );
        assert_eq!(get.cut_text(&words, &payload), None);
        payload[8..].fill(b'x');
        assert_eq!(
            get.cut_text(&words, &payload),
            Some((&"name".into(), 0x500))
        );
    }

    #[test]
    fn unknown_functions_have_a_name_a_layer_and_a_status() {
        let nccl = signature("ncclAllReduce", "libnccl.so.2");
        assert_eq!(nccl.layer, Layer::Library);
        let words = nccl.words([1, 2, 3, 4], &[]);
        assert!(nccl.arguments(&words, Some(&[])).is_empty());
        assert_eq!(
            nccl.status(5),
            Some(Status {
                code: 5,
                name: None
            })
        );
        assert_eq!(
            signature("__cudaRegisterFunction", "libcudart.so.12").status(5),
            None
        );
    }

    #[test]
    fn every_function_takes_any_record() {
        for function in cuda::functions().iter().chain(cuda::older_functions()) {
            for library in ["libcudart.so.12", "libcuda.so.1"] {
                let signature = signature(function.name, library);
                for length in [0, 7, 60, 121, 480] {
                    let payload = vec![0xff; length];
                    let words = signature.words([u64::MAX; 4], &payload);
                    signature.arguments(&words, Some(&payload));
                    signature.late_arguments(&words, &payload);
                    signature.outputs(&words, &payload);
                    signature.cut_text(&words, &payload);
                }
            }
        }
    }
}
