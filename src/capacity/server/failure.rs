//! What a failing `nvidia-smi` means (figures: `data/nvidia-smi-failures.csv`).

/// Why `nvidia-smi` did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SmiFailure {
    /// No such command: no driver, or it is not on the PATH of a non-login shell.
    Missing,
    /// The driver is installed and its kernel module is not loaded.
    NotLoaded,
    /// The driver is loaded and sees no usable card.
    NoDevices,
    /// The driver was upgraded and the machine was not restarted.
    Mismatch,
    /// The user may not open `/dev/nvidia*`.
    Permissions,
    /// A card is lost, and nothing else could be read.
    CardLost(String),
    /// A field of the query is unknown to this driver: ask again with fewer. Never shown to users.
    UnknownField(String),
    /// NVML fails without saying why: usual inside containers, rare on a host.
    Nvml,
    /// Anything else.
    Other {
        /// What it printed, the first line.
        output: String,
        /// Its exit code.
        exit_code: i32,
    },
}

impl SmiFailure {
    /// Whether the same failure is seen on a machine that has no card at all.
    #[must_use]
    pub fn may_mean_no_card(&self) -> bool {
        matches!(self, Self::Missing | Self::NotLoaded | Self::NoDevices)
    }
}

/// Sorts a failure by what was printed, and by the exit code where the text says nothing.
#[must_use]
pub fn classify(output: &str, exit_code: i32) -> SmiFailure {
    let first_line = output
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned();
    let has = |part: &str| output.contains(part);
    if has("is not a valid field to query") {
        SmiFailure::UnknownField(between_quotes(&first_line))
    } else if has("couldn't communicate with the NVIDIA driver") {
        SmiFailure::NotLoaded
    } else if has("version mismatch") {
        SmiFailure::Mismatch
    } else if has("GPU is lost") || has("Unable to determine the device handle") {
        SmiFailure::CardLost(first_line)
    } else if has("No devices were found") {
        SmiFailure::NoDevices
    } else if has("Insufficient Permissions") {
        SmiFailure::Permissions
    } else if has("Failed to initialize NVML") {
        SmiFailure::Nvml
    } else {
        match exit_code {
            127 => SmiFailure::Missing,
            9 => SmiFailure::NotLoaded,
            6 => SmiFailure::NoDevices,
            18 => SmiFailure::Mismatch,
            15 => SmiFailure::CardLost(first_line),
            4 => SmiFailure::Permissions,
            _ if has("command not found") => SmiFailure::Missing,
            _ => SmiFailure::Other {
                output: first_line,
                exit_code,
            },
        }
    }
}

fn between_quotes(line: &str) -> String {
    line.split('"').nth(1).unwrap_or(line).to_owned()
}

/// Whether a field says that there is no value: never a 0.
#[must_use]
pub fn has_no_value(field: &str) -> bool {
    let field = field.trim();
    field.is_empty()
        || matches!(
            field,
            "N/A" | "[N/A]" | "[Not Supported]" | "Not Supported" | "ERR!" | "[Unknown Error]"
        )
        || field == "[Requested functionality has been deprecated]"
        || field == "[Insufficient Permissions]"
        || field == "[GPU is lost]"
}
