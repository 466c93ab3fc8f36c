//! Where in a value something is.

mod trail;

use std::fmt;

use crate::value::Name;
pub(crate) use trail::Trail;

/// A path from the root of a resource's value to an attribute or element.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<Step>);

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// An attribute of an object.
    Attribute(Name),
    /// An element of a map.
    Key(Name),
    /// An element of a list.
    Index(usize),
}

impl Path {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }
    /// A path of one attribute.
    pub fn attribute(name: impl Into<Name>) -> Self {
        Path(vec![Step::Attribute(name.into())])
    }
    /// This path and one more step.
    #[must_use]
    pub fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Path(steps)
    }
    /// Only the first step: what Terraform can point at in a configuration file.
    #[must_use]
    pub fn top(&self) -> Self {
        Path(self.0.iter().take(1).cloned().collect())
    }
    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Attribute(name) if i == 0 => write!(f, "{name}")?,
                Step::Attribute(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Reads `size.gpu.count` as attributes, and a number such as the `0` of `ports.0.port` as an index. Meant for paths written in code.
impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Path(
            text.split('.')
                .filter(|step| !step.is_empty())
                .map(|step| match step.parse() {
                    Ok(index) => Step::Index(index),
                    Err(_) => Step::Attribute(step.into()),
                })
                .collect(),
        )
    }
}
