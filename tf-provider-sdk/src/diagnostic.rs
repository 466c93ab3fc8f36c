//! What a user is told: an error or a warning, with the attribute that it is about.

use crate::path::Path;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The operation fails.
    Error,
    /// The operation goes on.
    Warning,
}

/// One message to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// One line. Terraform folds warnings that share it.
    pub summary: String,
    /// What was asked, what was found, what to do.
    pub detail: String,
    /// The attribute concerned; the root when it is the whole object.
    pub path: Path,
}

impl Diagnostic {
    /// An error about the whole object.
    pub fn error(summary: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            summary: summary.into(),
            detail: detail.into(),
            path: Path::root(),
        }
    }
    /// A warning about the whole object.
    pub fn warning(summary: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(summary, detail)
        }
    }
    /// The same message, about the attribute at `path`.
    #[must_use]
    pub fn at(mut self, path: impl Into<Path>) -> Self {
        self.path = path.into();
        self
    }
    /// Whether this fails the operation.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The messages of one operation, in the order in which they came up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// No message.
    pub fn none() -> Self {
        Self::default()
    }
    /// Adds a message; the same one twice is kept once.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }
    /// Adds an error at `path`.
    pub fn error(
        &mut self,
        path: impl Into<Path>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.push(Diagnostic::error(summary, detail).at(path));
    }
    /// Adds a warning at `path`.
    pub fn warning(
        &mut self,
        path: impl Into<Path>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.push(Diagnostic::warning(summary, detail).at(path));
    }
    /// Adds all messages of `other`.
    pub fn extend(&mut self, other: Diagnostics) {
        for diagnostic in other.0 {
            self.push(diagnostic);
        }
    }
    /// Whether one of them fails the operation.
    pub fn has_error(&self) -> bool {
        self.0.iter().any(Diagnostic::is_error)
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}
