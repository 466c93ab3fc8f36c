//! What users read about a server and its cards.

use super::{CardWhy, CheckedCard, ServerCheck, ServerWhy, SmiFailure};

/// The commands that point Docker at the NVIDIA Container Toolkit.
pub const TOOLKIT_COMMANDS: &str =
    "sudo nvidia-ctk runtime configure --runtime=docker\nsudo systemctl restart docker";

impl ServerCheck {
    /// None when the server can take GPU work; else `Can't take GPU work: ...` with what to do, or
    /// `No NVIDIA GPU on this server`.
    #[must_use]
    pub fn render_reason(&self) -> Option<String> {
        self.can_take_gpu_work.as_ref().err().map(ServerWhy::render)
    }
}

impl ServerWhy {
    /// The reason, and what to do.
    #[must_use]
    pub fn render(&self) -> String {
        let reason = match self {
            Self::NoCard => return "No NVIDIA GPU on this server".to_owned(),
            Self::Arch(arch) => {
                format!(
                    "its architecture is {arch}, and GPU work runs on amd64 only. Use an amd64 server."
                )
            }
            Self::Driver(failure) => failure.render(),
            Self::NoEngine(message) => format!(
                "the Docker Engine does not answer ({message}). Install or start Docker, then check again."
            ),
            Self::Denied(message) => format!(
                "this user may not use Docker ({message}). Add the user to the group docker, or set docker_sudo = true, then check again."
            ),
            Self::Toolkit(message) => format!(
                "nvidia-smi answers, but Docker can't reach the GPUs ({message}). Install the NVIDIA Container Toolkit if it is not there, then run on the server:\n\n{TOOLKIT_COMMANDS}\n\nand check again."
            ),
            Self::NoUsableCard(cards) => {
                let lines: Vec<String> = cards
                    .iter()
                    .map(|(name, why)| format!("  {name}: {}", why.render(name)))
                    .collect();
                format!("no card can be used:\n{}", lines.join("\n"))
            }
        };
        format!("Can't take GPU work: {reason}")
    }
}

impl SmiFailure {
    /// The reason and what to do, to follow `Can't take GPU work: `.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::Missing => "the NVIDIA driver is missing: there is an NVIDIA card, and no nvidia-smi on the PATH of a non-login shell. Install the driver, then check again.".to_owned(),
            Self::NotLoaded => "the NVIDIA driver is broken: it is installed, but its kernel module is not loaded (a new kernel, Secure Boot, or nouveau holds the card). Reinstall the driver for the running kernel or restart the server, then check again.".to_owned(),
            Self::NoDevices => "the NVIDIA driver is broken: it is loaded, but sees no usable card (one that fell off the bus, the wrong kernel module flavor, or cards given to VMs with vfio-pci). See dmesg for NVRM lines, fix that, then check again.".to_owned(),
            Self::Mismatch => "the NVIDIA driver is broken: it was upgraded and the old kernel module is still loaded (driver/library version mismatch). Restart the server, then check again.".to_owned(),
            Self::Permissions => "this user may not open /dev/nvidia* (Insufficient Permissions). Give the user access to the devices, usually through the group video, then check again.".to_owned(),
            Self::CardLost(line) => format!("a GPU is lost ({line}). Restart the server; if that does not bring the card back, it is broken. Then check again."),
            Self::UnknownField(field) => format!("nvidia-smi does not know the field {field:?}: this driver is too old. Update the driver, then check again."),
            Self::Nvml => "nvidia-smi can't initialize NVML (Unknown Error). Restart the server, then check again.".to_owned(),
            Self::Other { output, exit_code } => {
                let said = if output.is_empty() { "nothing".to_owned() } else { format!("{output:?}") };
                format!("nvidia-smi does not answer: it printed {said} and ended with code {exit_code}. The NVIDIA driver is missing or broken: fix it, then check again.")
            }
        }
    }
}

impl CardWhy {
    /// Why the card `name` can't be used.
    #[must_use]
    pub fn render(&self, name: &str) -> String {
        match self {
            Self::Mig => "MIG is on: its slices are not whole GPUs. Turn MIG off (nvidia-smi -mig 0) to use the card.".to_owned(),
            Self::Vgpu => "a vGPU, not a whole card.".to_owned(),
            Self::UnknownKind => format!("{name} is none of the GPU kinds that Loomplane knows."),
            Self::OtherMemory { kind, found_mib } => format!(
                "it has {found_mib} MiB where {kind} has {}: another card by the same name.",
                kind.memory_mib()
            ),
            Self::NotSchedulable => "listed and priced, but Loomplane can't schedule it yet.".to_owned(),
            Self::Prohibited => "its compute mode is Prohibited. Set it back (nvidia-smi -c 0) to use the card.".to_owned(),
            Self::Fault(fault) => format!("{fault}. Restart the server; if that does not help, the card is broken."),
            Self::NotListed { driver: Some(driver) } if driver == "vfio-pci" => {
                "handed to virtual machines (vfio-pci).".to_owned()
            }
            Self::NotListed { driver: Some(driver) } if driver == "nouveau" => {
                "the driver nouveau holds it, not NVIDIA's.".to_owned()
            }
            Self::NotListed { .. } => {
                "on the PCI bus, but nvidia-smi does not list it: lost, or without a driver. See dmesg for NVRM lines.".to_owned()
            }
        }
    }
}

impl CheckedCard {
    /// Why the card can't be used; none when it can.
    #[must_use]
    pub fn render_reason(&self) -> Option<String> {
        self.usable.as_ref().err().map(|why| why.render(&self.name))
    }
}
