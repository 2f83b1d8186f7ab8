//! Starting, taking records, ending.

use crate::{
    buffers, clock, events,
    file::TimesFile,
    find,
    functions::{Functions, Refused},
    guard, nodes,
    threads::{self, Alone},
    wanted::Wanted,
};
use cuda::cupti;
use event::gpu_times as frames;
use std::{
    collections::HashSet,
    ffi::{CStr, OsStr, c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// How often what is complete is handed over: what a killed process can lose. By itself CUPTI
/// hands over full buffers only.
const PERIOD: Duration = Duration::from_millis(100);

/// Looks for which nothing is wanted before nothing is collected: what was launched before may still run.
const PATIENCE: u32 = 30;

/// What is asked for. Kinds that a version or a device refuses are left out.
const KINDS: [u32; 4] = [
    cupti::CONCURRENT_KERNEL,
    cupti::MEMCPY,
    cupti::MEMCPY2,
    cupti::MEMSET,
];

/// Beside them, if asked for: what CUPTI takes for itself, and when the host waited.
const ON_DEMAND: [u32; 2] = [cupti::OVERHEAD, cupti::SYNCHRONIZATION];

fn is_asked_for(kind: u32) -> bool {
    let wanted = Wanted::get();
    match kind {
        cupti::OVERHEAD => wanted.overhead,
        _ => wanted.waits,
    }
}

/// Whether records of calls of this function are asked for: work and waits are linked by them.
fn is_wanted(function: &str) -> bool {
    cupti::submits_work(function) || (cupti::synchronises(function) && wants_waits())
}

/// Work carries the number of the driver call that submitted it, a wait that of the runtime call around it. Records of the
/// runtime's launches are not asked for: while they are on, the runtime asks for the kernel's name before every
/// launch, which costs more than all the rest.
fn choose_calls(functions: &Functions, enable: bool) -> Option<usize> {
    let chosen = functions.choose_driver_calls(is_wanted, enable)?;
    if wants_waits() {
        functions.choose_runtime_calls(cupti::synchronises, enable);
    }
    Some(chosen)
}

fn wants_waits() -> bool {
    Wanted::get().waits
}

struct Collector {
    functions: Functions,
    pid: u32,
    /// Nothing need be collected while this file is there.
    pause: PathBuf,
    state: Mutex<State>,
}

struct State {
    times: TimesFile,
    /// Names that the tracer has been told.
    named: HashSet<u64>,
    /// Records to be written, encoded.
    encoded: Vec<u8>,
    calls: Calls,
    collecting: bool,
    paused: bool,
    /// Which of the sessions that this process has been in.
    session: u64,
}

/// How the calls that cause work are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Only those.
    Chosen,
    /// All of them: this CUPTI knows no choice.
    All,
}

static COLLECTOR: OnceLock<Collector> = OnceLock::new();

/// The driver calls this inside cuInit.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    let _ = catch_unwind(|| {
        if let Some(wanted) = Wanted::from_environment()
            && COLLECTOR.get().is_none()
        {
            start(wanted);
        }
    });
    1
}

/// A session begins in a program that runs already, or another begins.
pub fn attach(wanted: Wanted) {
    detach();
    let Some(collector) = COLLECTOR.get().filter(|collector| collector.is_here()) else {
        return start(wanted);
    };
    let Ok(times) = TimesFile::create(&wanted.session) else {
        return;
    };
    if wanted.events {
        wanted.set();
        return fall_back(times, "as asked for");
    }
    let session = wanted.session.clone();
    wanted.set();
    collector.begin_with(times);
    begin(collector, &session);
}

/// The session is over: nothing is collected any more, and nothing costs.
pub fn detach() {
    if let Some(collector) = COLLECTOR.get().filter(|collector| collector.is_here()) {
        collector.end();
        // The next session's records are of the next session's work.
        collector.state().named.clear();
    }
    events::finish();
}

fn start(wanted: Wanted) {
    let session = wanted.session.clone();
    let by_events = wanted.events;
    wanted.set();
    // Without a folder there is no tracer, and nobody to tell.
    let Ok(times) = TimesFile::create(&session) else {
        return;
    };
    if by_events {
        fall_back(times, "as asked for");
        return;
    }
    let mut refused = Vec::new();
    let functions = find::candidates().into_iter().find_map(|path| {
        let shown = path.display().to_string();
        // CUPTI's threads are there because of us: they take no signals, either.
        match threads::without_signals(|| Functions::load(&path)) {
            Ok(functions) => Some(functions),
            // A bare name that the loader does not know says nothing.
            Err(_) if !shown.contains('/') => None,
            Err(why) => {
                refused.push(format!("{shown}: {why}"));
                None
            }
        }
    });
    let Some(functions) = functions else {
        let more: String = refused.iter().map(|why| format!("; {why}")).collect();
        fall_back(times, &format!("libcupti was not found{more}"));
        return;
    };
    let mut times = times;
    times.write(frames::BEGIN, functions.about().as_bytes());
    let collector = COLLECTOR.get_or_init(|| Collector {
        functions,
        pid: std::process::id(),
        pause: Path::new(&session).join(frames::PAUSE_FILE),
        state: Mutex::new(State {
            times,
            named: HashSet::new(),
            encoded: Vec::new(),
            calls: Calls::Chosen,
            collecting: false,
            paused: false,
            session: 0,
        }),
    });
    // SAFETY: registers a function that lives as long as the process.
    unsafe { libc::atexit(finish) };
    begin(collector, &session);
}

/// Begins to collect, into the file that the collector has.
fn begin(collector: &'static Collector, session: &OsStr) {
    if let Err(Refused(result)) = threads::without_signals(|| collector.begin()) {
        let words = cupti::result_words(result);
        collector.state().times.end();
        if let Ok(times) = TimesFile::create(session) {
            fall_back(times, &format!("{words} (CUPTI error {result})"));
        }
        return;
    }
    let number = collector.state().session;
    if threads::start("cutrace-gpu-times", move |alone| hand_over(alone, number)).is_err() {
        let words = "a thread could not be started: GPU times arrive only when a buffer is full, and at the end";
        collector.state().times.note(words);
    }
}

/// Without CUPTI: `why`.
fn fall_back(times: TimesFile, why: &str) {
    // SAFETY: registers a function that lives as long as the process.
    match events::start(times, why) {
        Ok(()) => unsafe {
            libc::atexit(finish_events);
        },
        Err((mut times, also)) => {
            times.note(&format!("{why}, so there are no GPU times: {also}"));
            times.end();
        }
    }
}

extern "C" fn finish_events() {
    let _ = catch_unwind(events::finish);
}

/// Has what is complete handed over from time to time, as long as anything is collected.
fn hand_over(alone: &Alone, session: u64) {
    let Some(collector) = COLLECTOR.get() else {
        return;
    };
    // cuInit may take long.
    let mut looks = 50;
    let mut unwanted = 0;
    loop {
        if alone.sleep(PERIOD) {
            return;
        }
        let (collecting, abandoned) = {
            let mut state = collector.state();
            if looks > 0 && state.collecting {
                state.times.surroundings();
                looks -= 1;
            }
            state.times.nodes(&nodes::seen());
            let collecting = state.collecting && state.session == session;
            (collecting, state.times.is_abandoned())
        };
        if !collecting {
            return;
        }
        if abandoned {
            // Whoever unlinked the file may read on, up to its end.
            collector.end();
            return;
        }
        unwanted = match collector.pause.exists() {
            true => unwanted + 1,
            false => 0,
        };
        collector.set_paused(unwanted >= PATIENCE);
        // Without work since the last time there is nothing to hand over.
        if buffers::in_use() > 0 {
            collector.functions.flush(false);
        }
    }
}

impl Collector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is still the process that collects, not a forked child.
    fn is_here(&self) -> bool {
        std::process::id() == self.pid
    }

    /// For another session.
    fn begin_with(&self, mut times: TimesFile) {
        times.write(frames::BEGIN, self.functions.about().as_bytes());
        let mut state = self.state();
        state.times = times;
        state.session += 1;
    }

    fn begin(&'static self) -> Result<(), Refused> {
        guard::own(|| self.ask())?;
        let watched = guard::watch_once(&self.functions);
        if watched > 0 && Wanted::get().graph_nodes {
            // Whoever subscribes after us is noticed before CUPTI refuses. Without this, origins of graphs' work are less exact.
            let _ = guard::own(|| nodes::follow(&self.functions));
        }
        let mut state = self.state();
        if watched == 0 {
            state.times.note(
                "CUPTI's code could not be patched: if the program also uses CUPTI, GPU times may stop without notice",
            );
        }
        state.collecting = true;
        state.times.clock(clock::pair(&self.functions));
        Ok(())
    }

    /// Asks CUPTI for everything that is wanted.
    fn ask(&self) -> Result<(), Refused> {
        let functions = &self.functions;
        functions.is_alone()?;
        functions.use_system_threads(true);
        functions.register(buffers::request, complete)?;
        self.enable_kinds()?;
        self.enable_calls();
        Ok(())
    }

    fn enable_kinds(&self) -> Result<(), Refused> {
        let functions = &self.functions;
        let mut enabled = 0;
        let mut last = Ok(());
        for kind in KINDS {
            match functions.enable(kind) {
                Ok(()) => enabled += 1,
                Err(refused) => last = Err(refused),
            }
        }
        if enabled == 0 {
            return last;
        }
        for kind in ON_DEMAND {
            if is_asked_for(kind) {
                let _ = functions.enable(kind);
            }
        }
        Ok(())
    }

    fn enable_calls(&self) {
        let functions = &self.functions;
        let calls = match choose_calls(functions, true) {
            Some(chosen) if chosen > 0 => Calls::Chosen,
            _ => {
                // Each call of the driver costs then, not only those that cause work.
                let _ = functions.enable(cupti::DRIVER);
                if wants_waits() {
                    let _ = functions.enable(cupti::RUNTIME);
                }
                Calls::All
            }
        };
        self.state().calls = calls;
    }

    /// Collects nothing for a while, or goes on.
    fn set_paused(&self, paused: bool) {
        let calls = {
            let mut state = self.state();
            if !state.collecting || std::mem::replace(&mut state.paused, paused) == paused {
                return;
            }
            state.calls
        };
        guard::own(|| match paused {
            true => {
                self.functions.flush(false);
                self.disable(calls);
            }
            false => {
                let _ = self.enable_kinds();
                self.enable_calls();
            }
        });
    }

    /// Ends collecting, and with it what it costs. False: it had ended already.
    fn end(&self) -> bool {
        let calls = {
            let mut state = self.state();
            if !std::mem::take(&mut state.collecting) {
                return false;
            }
            state.calls
        };
        let last = guard::own(|| {
            self.stop(calls);
            nodes::stop()
        });
        let mut state = self.state();
        state.times.nodes(&last);
        state.times.clock(clock::pair(&self.functions));
        state.times.end();
        true
    }

    /// Hands over what there is, and asks for nothing more.
    fn stop(&self, calls: Calls) {
        self.functions.flush(true);
        self.disable(calls);
        self.functions.use_system_threads(false);
    }

    fn disable(&self, calls: Calls) {
        let functions = &self.functions;
        for kind in KINDS.into_iter().chain(ON_DEMAND) {
            functions.disable(kind);
        }
        match calls {
            Calls::Chosen => {
                choose_calls(functions, false);
            }
            Calls::All => {
                functions.disable(cupti::DRIVER);
                functions.disable(cupti::RUNTIME);
            }
        }
    }

    fn take(&self, context: *mut c_void, stream: u32, buffer: *mut u8, valid: usize) {
        let pair = clock::pair(&self.functions);
        let mut state = self.state();
        let state = &mut *state;
        state.encoded.clear();
        let (mut count, mut record) = (0, std::ptr::null_mut::<u8>());
        let mut next = self.functions.next(buffer, valid, record);
        let end = buffer as usize + valid;
        while let Some(at) = next {
            record = at;
            next = self.functions.next(buffer, valid, record);
            let length = next.map_or(end, |next| next as usize) - record as usize;
            // SAFETY: the record lies in the buffer that CUPTI has handed over.
            let bytes = unsafe { std::slice::from_raw_parts(record, length) };
            count += u64::from(state.add(bytes));
        }
        // Before the records: their times then lie between two pairs, and they are of nodes that are known.
        state.times.clock(pair);
        state.times.nodes(&nodes::seen());
        state.times.records(&state.encoded, count);
        let dropped = self.functions.dropped(context, stream);
        if dropped > 0 {
            state.times.dropped(dropped as u64);
        }
    }
}

impl State {
    /// Whether the record is one of an event of the trace, not of a call that only links them.
    fn add(&mut self, record: &[u8]) -> bool {
        let Some(kind) = record.get(..4) else {
            return false;
        };
        let kind = u32::from_le_bytes([kind[0], kind[1], kind[2], kind[3]]);
        if cupti::is_kernel(kind)
            && let Some(bytes) = record.get(cupti::KERNEL_NAME..cupti::KERNEL_NAME + 8)
        {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            self.name(u64::from_le_bytes(word));
        }
        self.encoded
            .extend_from_slice(&(record.len() as u64).to_le_bytes());
        self.encoded.extend_from_slice(record);
        let padding = frames::padding(record.len());
        self.encoded.resize(self.encoded.len() + padding, 0);
        KINDS.contains(&kind) || cupti::is_kernel(kind) || kind == cupti::SYNCHRONIZATION
    }

    /// Tells a name before the record that has it.
    fn name(&mut self, address: u64) {
        if address == 0 || !self.named.insert(address) {
            return;
        }
        // SAFETY: CUPTI's names are C strings that last as long as the process.
        let name = unsafe { CStr::from_ptr(address as *const c_char) };
        let mut payload = address.to_le_bytes().to_vec();
        payload.extend_from_slice(name.to_bytes());
        if !self.times.write(frames::NAME, &payload) {
            // Told with the next record that has it.
            self.named.remove(&address);
        }
    }
}

/// CUPTI hands a buffer over.
extern "C" fn complete(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    let Some(collector) = COLLECTOR.get().filter(|collector| collector.is_here()) else {
        return;
    };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if valid > 0 {
            collector.take(context, stream, buffer, valid);
        }
        buffers::give_back(buffer);
    }));
}

extern "C" fn finish() {
    let Some(collector) = COLLECTOR.get().filter(|collector| collector.is_here()) else {
        return;
    };
    let _ = catch_unwind(AssertUnwindSafe(|| collector.end()));
}

/// Another user of CUPTI has come, and is about to call this function: all is as if we had not been.
pub fn step_back(function: &str) {
    let Some(collector) = COLLECTOR.get().filter(|collector| collector.is_here()) else {
        return;
    };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if !collector.end() {
            return;
        }
        if let Ok(times) = TimesFile::create(&Wanted::get().session) {
            let why = format!(
                "the program uses CUPTI itself ({function}), as torch.profiler does; cutrace lets it: from then on"
            );
            fall_back(times, &why);
        }
    }));
}
