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
    /// An error whose detail is what `cause` and the causes behind it say.
    pub fn caused_by(summary: impl Into<String>, cause: &dyn std::error::Error) -> Self {
        let mut detail = cause.to_string();
        let mut next = cause.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            // Many errors repeat the text of their cause.
            if !detail.ends_with(&text) {
                detail.push_str(": ");
                detail.push_str(&text);
            }
            next = cause.source();
        }
        Self::error(summary, detail)
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

/// Turns the error of a result into a diagnostic: `fs::write(&path, text).explain("The file can't be written")?`.
pub trait Explain<T> {
    /// The value, or an error with this summary whose detail is what the causes say.
    ///
    /// # Errors
    /// The error of the result, as a diagnostic.
    fn explain(self, summary: impl Into<String>) -> Result<T, Diagnostic>;
}

impl<T, E: std::error::Error> Explain<T> for Result<T, E> {
    fn explain(self, summary: impl Into<String>) -> Result<T, Diagnostic> {
        self.map_err(|cause| Diagnostic::caused_by(summary, &cause))
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Link(&'static str, #[source] Option<Box<Link>>);

    #[test]
    fn an_explained_error_names_every_cause_once() {
        let deepest = Link("no route", None);
        let repeats = Link("can't connect: no route", Some(Box::new(deepest)));
        let outer: Result<(), Link> = Err(Link("request failed", Some(Box::new(repeats))));
        let why = outer.explain("The fleet can't be listed").unwrap_err();
        assert_eq!(why.summary, "The fleet can't be listed");
        assert_eq!(why.detail, "request failed: can't connect: no route");
        assert!(why.is_error());
    }
}
