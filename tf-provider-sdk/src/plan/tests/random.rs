//! Random schemas, and values that conform to them.

use std::collections::BTreeMap;

use crate::{
    number::Number,
    schema::{Attribute, Attributes, Kind, Nesting, Schema},
    types::Type,
    value::Value,
};

/// A small generator, so that a failing case is one seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn schema(&mut self) -> Schema {
        let attributes = self.attributes(0, true);
        Schema {
            version: 0,
            description: String::new(),
            attributes,
        }
    }

    fn attributes(&mut self, depth: u64, computed: bool) -> Attributes {
        let count = 1 + self.below(5);
        (0..count)
            .map(|i| (format!("a{i}").into(), self.attribute(depth, computed)))
            .collect()
    }

    fn attribute(&mut self, depth: u64, may_be_computed: bool) -> Attribute {
        let choice = self.below(if may_be_computed { 6 } else { 3 });
        let (required, optional, computed) = match choice {
            0 => (true, false, false),
            1 | 2 => (false, true, false),
            3 => (false, true, true),
            _ => (false, false, true),
        };
        let computed_only = computed && !optional;
        let kind = if depth < 2 && self.one_in(3) {
            let nesting = [Nesting::Single, Nesting::List, Nesting::Set, Nesting::Map]
                [self.below(4) as usize];
            // No computed attributes in sets: their elements can't be told apart while unknown.
            let mut nested = self.attributes(
                depth + 1,
                may_be_computed && nesting != Nesting::Set && !computed_only,
            );
            if computed_only {
                nested.values_mut().for_each(make_computed);
            }
            Kind::Nested(nesting, nested)
        } else {
            Kind::Plain(self.ty(0))
        };
        let write_only = may_be_computed && choice == 1 && self.one_in(3);
        let plain = matches!(kind, Kind::Plain(_));
        let mut attribute = Attribute {
            description: String::new(),
            kind,
            required,
            optional,
            computed,
            sensitive: false,
            write_only,
            deprecated: None,
            stable: computed && self.one_in(2),
            replace: !write_only && self.one_in(3),
            default: None,
            checks: Vec::new(),
        };
        if optional && computed && plain && self.one_in(2) {
            let ty = attribute.ty();
            attribute.default = Some(self.value(&ty, 0)).filter(|value| !value.is_null());
        }
        attribute
    }

    fn ty(&mut self, depth: u64) -> Type {
        match self.below(if depth < 2 { 6 } else { 3 }) {
            0 => Type::String,
            1 => Type::Number,
            2 => Type::Bool,
            3 => Type::List(Box::new(self.ty(depth + 1))),
            4 => Type::Set(Box::new(self.ty(depth + 1))),
            _ => Type::Map(Box::new(self.ty(depth + 1))),
        }
    }

    /// A known value, null now and then.
    pub(super) fn value(&mut self, ty: &Type, depth: u64) -> Value {
        if depth == 0 && self.one_in(6) {
            return Value::Null;
        }
        match ty {
            Type::String => Value::String(["", "a", "b", "é"][self.below(4) as usize].to_owned()),
            Type::Number => Value::Number(match self.below(3) {
                0 => Number::from(self.below(3)),
                1 => "0.1".parse().unwrap(),
                _ => "123456789012345678901234567890".parse().unwrap(),
            }),
            Type::Bool => Value::Bool(self.one_in(2)),
            Type::List(element) => {
                let count = self.below(3);
                Value::List((0..count).map(|_| self.value(element, depth + 1)).collect())
            }
            Type::Set(element) => {
                let mut items: Vec<Value> = Vec::new();
                for _ in 0..self.below(3) {
                    let item = self.value(element, depth + 1);
                    if !items.iter().any(|other| other.equals(&item, element)) {
                        items.push(item);
                    }
                }
                Value::List(items)
            }
            Type::Map(element) => {
                let count = self.below(3);
                Value::Map(
                    (0..count)
                        .map(|i| (format!("k{i}").into(), self.value(element, depth + 1)))
                        .collect(),
                )
            }
            Type::Object { attributes, .. } => Value::Map(
                attributes
                    .iter()
                    .map(|(name, ty)| (name.clone(), self.value(ty, 0)))
                    .collect(),
            ),
            Type::Tuple(_) | Type::Dynamic => Value::Null,
        }
    }

    /// A configuration that conforms; with unknown values now and then.
    pub(super) fn config(&mut self, schema: &Schema, unknown: bool) -> Value {
        self.object(&schema.attributes, unknown)
    }

    fn object(&mut self, attributes: &Attributes, unknown: bool) -> Value {
        let mut values = BTreeMap::new();
        for (name, attribute) in attributes {
            values.insert(name.clone(), self.configured(attribute, unknown));
        }
        values.into()
    }

    fn configured(&mut self, attribute: &Attribute, unknown: bool) -> Value {
        if !attribute.required && (!attribute.optional || self.one_in(2)) {
            return Value::Null;
        }
        if unknown && self.one_in(5) {
            return Value::unknown();
        }
        match &attribute.kind {
            Kind::Plain(ty) => loop {
                let value = self.value(ty, 0);
                if !value.is_null() {
                    return if unknown { self.dim(value, ty) } else { value };
                }
            },
            Kind::Nested(Nesting::Single, nested) => self.object(nested, unknown),
            Kind::Nested(Nesting::Map, nested) => {
                let count = self.below(3);
                Value::Map(
                    (0..count)
                        .map(|i| (format!("k{i}").into(), self.object(nested, unknown)))
                        .collect(),
                )
            }
            Kind::Nested(nesting, nested) => {
                let element = crate::schema::object_type(nested);
                let mut items: Vec<Value> = Vec::new();
                for _ in 0..self.below(3) {
                    let item = self.object(nested, unknown && *nesting == Nesting::List);
                    if *nesting == Nesting::List
                        || !items.iter().any(|other| other.equals(&item, &element))
                    {
                        items.push(item);
                    }
                }
                Value::List(items)
            }
        }
    }

    /// Makes some elements of a collection unknown.
    fn dim(&mut self, value: Value, ty: &Type) -> Value {
        match (value, ty) {
            (Value::List(items), Type::List(_)) => Value::List(
                items
                    .into_iter()
                    .map(|item| {
                        if self.one_in(4) {
                            Value::unknown()
                        } else {
                            item
                        }
                    })
                    .collect(),
            ),
            (Value::Map(items), Type::Map(_)) => Value::Map(
                items
                    .into_iter()
                    .map(|(key, item)| {
                        (
                            key,
                            if self.one_in(4) {
                                Value::unknown()
                            } else {
                                item
                            },
                        )
                    })
                    .collect(),
            ),
            (value, _) => value,
        }
    }

    /// The value with known ones in place of unknown ones.
    pub(super) fn fill(&mut self, value: &Value, ty: &Type) -> Value {
        match (value, ty) {
            (Value::Unknown(_), ty) => loop {
                // An unknown value of a configuration never turns out to be null here: that would be another configuration.
                let value = self.value(ty, 1);
                if !value.is_null() {
                    return value;
                }
            },
            (Value::List(items), Type::List(element) | Type::Set(element)) => {
                Value::List(items.iter().map(|item| self.fill(item, element)).collect())
            }
            (Value::Map(items), Type::Map(element)) => Value::Map(
                items
                    .iter()
                    .map(|(key, item)| (key.clone(), self.fill(item, element)))
                    .collect(),
            ),
            (Value::Map(items), Type::Object { attributes, .. }) => Value::Map(
                items
                    .iter()
                    .map(|(key, item)| (key.clone(), self.fill(item, &attributes[key])))
                    .collect(),
            ),
            (value, _) => value.clone(),
        }
    }
}

fn make_computed(attribute: &mut Attribute) {
    attribute.required = false;
    attribute.optional = false;
    attribute.computed = true;
    attribute.write_only = false;
    attribute.default = None;
    if let Kind::Nested(_, nested) = &mut attribute.kind {
        nested.values_mut().for_each(make_computed);
    }
}
