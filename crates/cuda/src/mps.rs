//! NVIDIA's Multi-Process Service, as far as its documentation tells: the driver connects to a control
//! daemon in cuInit if one runs, and clients, server and daemon talk through pipes and sockets of one
//! folder.

/// The variable that names the folder, and the folder if it does not.
pub const FOLDER_VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
pub const USUAL_FOLDER: &str = "/tmp/nvidia-mps";

/// What it means for GPU times that a process is a client.
pub const CLIENT: &str = "under MPS: kernels of other clients may run on the GPU at the same time, so times are those \
     of a shared GPU, and idle only means that this program left it idle";

/// Whether a file is one of the service's.
pub fn is_in(folder: &[u8], file: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    !folder.is_empty()
        && file
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn files_of_the_folder_are_its_own() {
        assert!(is_in(b"/tmp/nvidia-mps", b"/tmp/nvidia-mps/control"));
        assert!(is_in(b"/run/mps/", b"/run/mps/control_privileged"));
        for (folder, file) in [
            ("/tmp/nvidia-mps", "/tmp/nvidia-mps"),
            ("/tmp/nvidia-mps", "/tmp/nvidia-mps2/control"),
            ("", "/tmp/x"),
            ("/tmp/nvidia-mps", "socket:[77]"),
        ] {
            assert!(
                !is_in(folder.as_bytes(), file.as_bytes()),
                "{folder} {file}"
            );
        }
    }
}
