//! The size of a service: CPU, memory and /dev/shm (G3), as users write them.

use std::fmt;

#[cfg(test)]
mod tests;

/// An amount of CPU, in thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu {
    millis: u64,
}

impl Cpu {
    /// Reads `4`, `0.5` or `500m`: whole thousandths of a core, more than none.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let wrong = || SizeError::Cpu {
            text: text.to_owned(),
        };
        let digits = |part: &str| part.chars().all(|letter| letter.is_ascii_digit());
        let trimmed = text.trim();
        let millis = match trimmed.strip_suffix('m') {
            Some(millis) if !millis.is_empty() && digits(millis) => {
                millis.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
            None => {
                let (cores, part) = trimmed.split_once('.').unwrap_or((trimmed, "0"));
                if cores.is_empty() || part.is_empty() || !digits(cores) || !digits(part) {
                    return Err(wrong());
                }
                let part = part.trim_end_matches('0');
                if part.len() > 3 {
                    return Err(wrong());
                }
                let cores: u64 = cores.parse().map_err(|_| wrong())?;
                let part: u64 = format!("{part:0<3}").parse().map_err(|_| wrong())?;
                cores
                    .checked_mul(1000)
                    .and_then(|millis| millis.checked_add(part))
                    .ok_or_else(wrong)?
            }
        };
        if millis == 0 {
            Err(wrong())
        } else {
            Ok(Self { millis })
        }
    }

    /// Thousandths of a core.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.millis
    }

    /// Billionths of a core, as Docker counts (`NanoCpus`).
    #[must_use]
    pub fn nanos(self) -> u64 {
        self.millis.saturating_mul(1_000_000)
    }
}

impl fmt::Display for Cpu {
    /// As Kubernetes writes the quantity: `4`, `500m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.millis.is_multiple_of(1000) {
            write!(f, "{}", self.millis / 1000)
        } else {
            write!(f, "{}m", self.millis)
        }
    }
}

/// What is wrong with a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// `size.cpu` is no amount of CPU.
    #[error(
        "size.cpu: {text:?} is no amount of CPU: write cores, such as 4 or 0.5, in steps of a thousandth and above 0"
    )]
    Cpu {
        /// The text.
        text: String,
    },
    /// `size.memory` is not positive.
    #[error("size.memory: {memory_mib} MiB is no amount of memory: it is in MiB, and above 0")]
    Memory {
        /// What was asked.
        memory_mib: i64,
    },
    /// `size.shm` is not positive.
    #[error(
        "size.shm: {shm_mib} MiB is no size for /dev/shm: it is in MiB, and above 0. Leave it out for the default."
    )]
    Shm {
        /// What was asked.
        shm_mib: i64,
    },
    /// `size.shm` is not below `size.memory`.
    #[error(
        "size.shm: asked for {shm_mib} MiB of /dev/shm in {memory_mib} MiB of memory. Shared memory counts toward memory, so it has to be smaller: lower size.shm or raise size.memory."
    )]
    ShmTooLarge {
        /// What was asked.
        shm_mib: i64,
        /// `size.memory`.
        memory_mib: i64,
    },
}

/// Checks memory and /dev/shm, in MiB (G3). An unset `memory_mib` leaves nothing to compare with.
///
/// # Errors
/// What is not positive, and a /dev/shm that is not smaller than the memory.
pub fn check_memory(memory_mib: Option<i64>, shm_mib: Option<i64>) -> Result<(), SizeError> {
    match (memory_mib, shm_mib) {
        (Some(memory_mib), _) if memory_mib <= 0 => Err(SizeError::Memory { memory_mib }),
        (_, Some(shm_mib)) if shm_mib <= 0 => Err(SizeError::Shm { shm_mib }),
        (Some(memory_mib), Some(shm_mib)) if shm_mib >= memory_mib => Err(SizeError::ShmTooLarge {
            shm_mib,
            memory_mib,
        }),
        _ => Ok(()),
    }
}
