//! Words that several rooms of the domain share.

/// A summary line and the text below it, as a diagnostic has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// One line.
    pub summary: String,
    /// What was asked, what was found, what to do.
    pub detail: String,
}

/// `1 GPU`, `4 GPUs`.
pub(crate) fn gpus(count: u64) -> String {
    counted(count, "GPU")
}

/// `1 node`, `4 nodes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
