//! Members of an object, asked for in the order of their names.
//!
//! An object and its schema are both in that order, and every call walks both several times: the member that is wanted next is nearly
//! always the one that comes next, and one comparison tells. A search for each would be most of what a plan costs.

use super::{NULL, Name, Value};

/// A reader of the members of an object. Any order of asking is right; that of the names is fast.
pub(crate) struct InOrder<'a> {
    members: &'a [(Name, Value)],
    next: usize,
}

impl<'a> InOrder<'a> {
    /// The members of an object; none, where `value` is none.
    pub(crate) fn of(value: &'a Value) -> Self {
        let members = match value {
            Value::Map(members) => members.as_slice(),
            _ => &[],
        };
        InOrder { members, next: 0 }
    }

    /// The member of this name, if the object has it.
    pub(crate) fn find(&mut self, name: &str) -> Option<&'a Value> {
        let at = match self.members.get(self.next) {
            Some((next, _)) if next == name => self.next,
            _ => match self
                .members
                .binary_search_by(|(member, _)| member.bytes().cmp(name.bytes()))
            {
                Ok(at) => at,
                Err(at) => {
                    self.next = at;
                    return None;
                }
            },
        };
        self.next = at + 1;
        self.members.get(at).map(|(_, value)| value)
    }

    /// The member of this name, or null.
    pub(crate) fn member(&mut self, name: &str) -> &'a Value {
        self.find(name).unwrap_or(&NULL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_in_whatever_order_it_is_asked_for() {
        let object =
            Value::object([("a", 1), ("b", 2), ("d", 4)].map(|(n, v)| (n, Value::from(v))));
        for names in ["abcd", "dcba", "aabbccdd", "bdac", "cccb", "d", "xa"] {
            let mut members = InOrder::of(&object);
            for name in names.chars().map(String::from) {
                let there = object.as_map().and_then(|map| map.get(name.as_str()));
                assert_eq!(members.find(&name), there, "{name} of {names}");
            }
        }
        assert_eq!(InOrder::of(&Value::Null).find("a"), None);
        assert_eq!(InOrder::of(&Value::unknown()).member("a"), &Value::Null);
    }
}
