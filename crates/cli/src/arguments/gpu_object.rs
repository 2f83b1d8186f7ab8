//! What can be said about a BPF object besides its name.

use capture::gpu_probe::programs::{AttachTo, ObjectOptions, Setting};

#[derive(clap::Args)]
pub struct ObjectLine {
    /// Attach a program elsewhere than its section says: PROGRAM=uprobe:LIB:FUNCTION, uretprobe:…,
    /// kprobe:KERNEL or kretprobe:KERNEL (repeatable)
    ///
    /// LIB may be left out: uprobe:FUNCTION. A program of the GPU goes to a kernel, one of the host to a
    /// function of a library or of the host's kernel.
    #[arg(long, value_name = "PROGRAM=PLACE")]
    attach: Vec<AttachTo>,
    /// Put values into a map before the program starts: MAP[KEY]=NUMBER, MAP[FROM..TO]=NUMBER or
    /// MAP=@FILE (repeatable)
    ///
    /// A value of several numbers: MAP[KEY]=32,32,32. A file holds the values one after another, as they lie
    /// in memory. 'realtime-monotonic' is the difference of these clocks, in ns.
    #[arg(long, value_name = "MAP[KEY]=VALUE")]
    set: Vec<Setting>,
    #[command(flatten)]
    budget: BudgetLine,
}

#[derive(clap::Args)]
pub struct BudgetLine {
    /// Rounds that loops may make in one thread, for programs whose loops have no bound that is known
    ///
    /// A thread that has used them up leaves the program, not the kernel; such threads are counted.
    #[arg(long, value_name = "N", default_value_t = gpubpf::Budget::ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
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
