//! How an admission is stored with a service: Terraform writes its whole state after every resource of an apply, so what each resource
//! keeps there costs every other one time. Requirements are written as Kubernetes writes selectors, and what all terms ask at their
//! end stands there once.

use serde::{Deserialize, Serialize};

use super::{Admission, Operator, Requirement, Term};

/// An admission as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    /// What each term asks.
    any: Vec<Vec<String>>,
    /// What every term asks besides.
    each: Vec<String>,
}

impl From<Admission> for Stored {
    fn from(admission: Admission) -> Self {
        let common = common_end(&admission.terms);
        let first = admission.terms.first().map(|term| &term.requirements[..]);
        let each = first.unwrap_or_default();
        Self {
            each: each[each.len() - common..].iter().map(text).collect(),
            any: admission
                .terms
                .iter()
                .map(|term| {
                    let own = term.requirements.len() - common;
                    term.requirements[..own].iter().map(text).collect()
                })
                .collect(),
        }
    }
}

impl TryFrom<Stored> for Admission {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let each = read_all(&stored.each)?;
        let term = |own: &Vec<String>| {
            let mut requirements = read_all(own)?;
            requirements.extend(each.iter().cloned());
            Ok(Term { requirements })
        };
        let terms = stored.any.iter().map(term).collect::<Result<_, String>>()?;
        Ok(Self { terms })
    }
}

/// How many requirements all terms have in common at their end.
fn common_end(terms: &[Term]) -> usize {
    let Some((first, others)) = terms.split_first() else {
        return 0;
    };
    let same = |other: &Term| {
        let pairs = first
            .requirements
            .iter()
            .rev()
            .zip(other.requirements.iter().rev());
        pairs.take_while(|(a, b)| a == b).count()
    };
    others
        .iter()
        .map(same)
        .min()
        .unwrap_or(first.requirements.len())
}

fn text(requirement: &Requirement) -> String {
    let Requirement {
        key,
        operator,
        values,
    } = requirement;
    let values = || values.join(",");
    match operator {
        Operator::In => format!("{key} in ({})", values()),
        Operator::NotIn => format!("{key} notin ({})", values()),
        Operator::Exists => key.clone(),
        Operator::DoesNotExist => format!("!{key}"),
    }
}

fn read_all(texts: &[String]) -> Result<Vec<Requirement>, String> {
    texts.iter().map(|text| read(text)).collect()
}

fn read(text: &str) -> Result<Requirement, String> {
    let bad = || format!("{text:?} is no requirement on a label");
    let (key, operator, values) = match (text.strip_prefix('!'), text.split_once(' ')) {
        (Some(key), _) => (key, Operator::DoesNotExist, ""),
        (None, None) => (text, Operator::Exists, ""),
        (None, Some((key, rest))) => {
            let (operator, list) = rest.split_once(' ').ok_or_else(bad)?;
            let list = list.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
            let operator = match operator {
                "in" => Operator::In,
                "notin" => Operator::NotIn,
                _ => return Err(bad()),
            };
            (key, operator, list.ok_or_else(bad)?)
        }
    };
    let values = match operator {
        Operator::In | Operator::NotIn => values.split(',').map(ToOwned::to_owned).collect(),
        Operator::Exists | Operator::DoesNotExist => Vec::new(),
    };
    Ok(Requirement {
        key: key.to_owned(),
        operator,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::admission::admission;
    use crate::capacity::gpu::Kind;

    #[test]
    fn k5_every_admission_is_read_as_it_was_stored_and_is_small() {
        for kind in Kind::ALL {
            let made = admission(kind);
            let stored = serde_json::to_string(&made).unwrap();
            assert_eq!(serde_json::from_str::<Admission>(&stored).unwrap(), made);
            assert!(stored.len() < 4_000, "{}: {}", kind.id(), stored.len());
        }
    }

    #[test]
    fn what_others_wrote_is_read_as_it_was_stored() {
        let requirement = |operator, values: &[&str]| Requirement {
            key: "example.com/a".to_owned(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let terms = [
            Term {
                requirements: vec![
                    requirement(Operator::Exists, &[]),
                    requirement(Operator::In, &[""]),
                    requirement(Operator::NotIn, &["a", "b.c_d-e"]),
                ],
            },
            Term {
                requirements: vec![requirement(Operator::DoesNotExist, &[])],
            },
            Term {
                requirements: Vec::new(),
            },
        ];
        for count in 0..=terms.len() {
            let made = Admission {
                terms: terms[..count].to_vec(),
            };
            let stored = serde_json::to_string(&made).unwrap();
            assert_eq!(serde_json::from_str::<Admission>(&stored).unwrap(), made);
        }
        for bad in ["a like (b)", "a in b", "a in"] {
            let stored = serde_json::json!({"any": [[bad]], "each": []});
            assert!(
                serde_json::from_value::<Admission>(stored).is_err(),
                "{bad}"
            );
        }
    }
}
