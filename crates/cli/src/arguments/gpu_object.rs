//! Options about a BPF object: where its programs go, what its maps begin with.

use capture::gpu_probe::programs::{AttachTo, ObjectOptions, Setting};

#[derive(clap::Args)]
pub struct ObjectLine {
    /// Attach a program elsewhere than its section says: PROGRAM=uprobe:LIB:FUNCTION, uretprobe:…,
    /// kprobe:KERNEL or kretprobe:KERNEL (repeatable)
    ///
    /// LIB may be left out: uprobe:FUNCTION. A GPU program goes to a GPU kernel; a host program goes to a function of a
    /// library or of the Linux kernel.
    #[arg(long, value_name = "PROGRAM=PLACE")]
    attach: Vec<AttachTo>,
    /// Put values into a map before the program starts: MAP[KEY]=NUMBER, MAP[FROM..TO]=NUMBER or
    /// MAP=@FILE (repeatable)
    ///
    /// A value may have several numbers: MAP[KEY]=32,32,32. A file has the values one after another, in binary.
    /// 'realtime-monotonic' is the difference between these two clocks, in ns.
    #[arg(long, value_name = "MAP[KEY]=VALUE")]
    set: Vec<Setting>,
    #[command(flatten)]
    budget: BudgetLine,
}

#[derive(clap::Args)]
pub struct BudgetLine {
    /// How often loops without a known bound may run, in one thread
    ///
    /// A thread that reaches the limit leaves the program, not the kernel. Such threads are counted.
    #[arg(long = "rounds", alias = "budget", value_name = "N", default_value_t = gpubpf::Budget::ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
}

impl ObjectLine {
    pub fn options(self) -> ObjectOptions {
        ObjectOptions {
            attach: self.attach,
            set: self.set,
            budget: self.budget.rounds(),
        }
    }
}

impl BudgetLine {
    pub fn rounds(&self) -> u64 {
        self.budget
    }
}
