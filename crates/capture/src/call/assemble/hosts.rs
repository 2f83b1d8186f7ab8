//! Kernels of programs that ran before anybody looked: their handles were never seen to be named. What a runtime
//! launch is given is the address of a function in the program, which has the kernel's name; where it is a handle,
//! the launch returns into that function.

use super::{Assembler, OpenCall};
use crate::Sink;
use crate::call::meaning;
use crate::call::origin::Origin;
use crate::call::role::Form;
use crate::call::state::Kernel;
use event::What;

impl<O: Origin, S: Sink> Assembler<O, S> {
    /// Finds a name for a launch's kernel among the program's functions, unless it has one.
    pub(super) fn name_by_host(&mut self, ring: usize, call: &OpenCall, form: Form) {
        for handle in meaning::kernel_handles(call.event(), form) {
            let thread = &self.rings[ring];
            let (process, image, pid) = (thread.process, thread.image, thread.pid);
            if super::observe::kernel_name(&self.states, &self.origin, image, pid, handle).is_some()
            {
                continue;
            }
            let start = call.event().start;
            let found = self
                .stub(image, handle, start, true)
                .or_else(|| self.stub(image, call.caller?, start, false));
            if let Some(kernel) = found {
                self.states.all[process].set_kernel(handle, kernel);
            }
        }
    }

    /// The kernel whose function of the host is at an address, or is what the address is in.
    fn stub(
        &mut self,
        image: Option<usize>,
        address: u64,
        time: u64,
        begins: bool,
    ) -> Option<Kernel> {
        if self.origin.objects(image?).is_none() && !std::mem::replace(&mut self.refreshed, true) {
            self.origin.refresh();
        }
        let loaded = self.origin.objects(image?)?.at(address, time)?;
        let in_file = address.wrapping_sub(loaded.bias);
        match begins {
            true => self.stubs.at(&loaded.path, in_file),
            false => self.stubs.around(&loaded.path, in_file),
        }
    }
}

/// A handle is no name: what is known of it is that nobody saw it made.
pub(super) fn say_unknown(what: &mut What) {
    if let What::Launch(launch) = what
        && launch.kernel.starts_with("0x")
    {
        let handle = &launch.kernel;
        launch.kernel =
            format!("unknown kernel (handle {handle}; attached after it was loaded)").into();
    }
}
