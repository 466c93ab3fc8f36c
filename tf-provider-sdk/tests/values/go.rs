//! Reads values as go-cty prints them (`ListVal([]Value{StringVal("a")})`): what the golden vectors mean, apart from
//! any codec.

use std::collections::BTreeMap;

use tf_provider_sdk::{
    number::Number,
    types::Type,
    value::{Bound, Dynamic, Refinement, Value},
};

/// The value that an expression stands for, as a value of a type: dynamic where the type says so.
pub(crate) fn value(expression: &str, ty: &Type) -> Value {
    let mut parser = Parser { rest: expression };
    let (value, own) = parser.value();
    assert_eq!(parser.rest, "", "{expression}");
    dress(value, &own, ty)
}

/// Wraps what is of a dynamic type with its own type.
fn dress(value: Value, own: &Type, ty: &Type) -> Value {
    let dress_all =
        |elements: Vec<Value>, own: &dyn Fn(usize) -> Type, ty: &dyn Fn(usize) -> Type| {
            let each = elements.into_iter().enumerate();
            Value::List(
                each.map(|(i, element)| dress(element, &own(i), &ty(i)))
                    .collect(),
            )
        };
    match (own, ty, value) {
        (Type::Dynamic, _, value) => value,
        (own, Type::Dynamic, value) => Value::Dynamic(Box::new(Dynamic {
            ty: own.clone(),
            value: dress(value, own, own),
        })),
        (
            Type::List(own) | Type::Set(own),
            Type::List(ty) | Type::Set(ty),
            Value::List(elements),
        ) => dress_all(elements, &|_| (**own).clone(), &|_| (**ty).clone()),
        (Type::Tuple(own), Type::Tuple(ty), Value::List(elements)) => {
            dress_all(elements, &|i| own[i].clone(), &|i| ty[i].clone())
        }
        (Type::Map(own), Type::Map(ty), Value::Map(elements)) => Value::Map(
            elements
                .into_iter()
                .map(|(key, value)| (key, dress(value, own, ty)))
                .collect(),
        ),
        (
            Type::Object {
                attributes: own, ..
            },
            Type::Object { attributes: ty, .. },
            Value::Map(elements),
        ) => {
            let each = elements.into_iter();
            Value::Map(
                each.map(|(key, value)| (key.clone(), dress(value, &own[&key], &ty[&key])))
                    .collect(),
            )
        }
        (_, _, value) => value,
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, token: &str) {
        assert!(self.eat(token), "{token:?} expected at {:?}", self.rest);
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn number(&mut self) -> Number {
        match self.take(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
            "+Inf" => Number::from_f64(f64::INFINITY).unwrap(),
            "-Inf" => Number::from_f64(f64::NEG_INFINITY).unwrap(),
            text => text.parse().unwrap(),
        }
    }

    fn text(&mut self) -> String {
        self.expect("\"");
        let mut text = String::new();
        loop {
            let c = self.rest.chars().next().unwrap();
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '"' => return text,
                '\\' => {
                    self.expect("x");
                    let (hex, rest) = self.rest.split_at(2);
                    text.push(char::from(u8::from_str_radix(hex, 16).unwrap()));
                    self.rest = rest;
                }
                c => text.push(c),
            }
        }
    }

    fn ty(&mut self) -> Type {
        let name = self.take(char::is_alphanumeric);
        match name {
            "String" => return Type::String,
            "Number" => return Type::Number,
            "Bool" => return Type::Bool,
            "DynamicPseudoType" => return Type::Dynamic,
            _ => self.expect("("),
        }
        let ty = match name {
            "List" => Type::list(self.ty()),
            "Map" => Type::map(self.ty()),
            "Object" => {
                self.expect("map[string]Type");
                Type::object(self.entries(Parser::ty))
            }
            _ => panic!("type {name}"),
        };
        self.expect(")");
        ty
    }

    fn entries<T>(&mut self, mut each: impl FnMut(&mut Self) -> T) -> BTreeMap<String, T> {
        let mut entries = BTreeMap::new();
        self.expect("{");
        while !self.eat("}") {
            let key = self.text();
            self.expect(":");
            entries.insert(key, each(self));
            self.eat(", ");
        }
        entries
    }

    fn value(&mut self) -> (Value, Type) {
        let name = self.take(char::is_alphanumeric);
        match name {
            "True" => return (true.into(), Type::Bool),
            "False" => return (false.into(), Type::Bool),
            "DynamicVal" => return (Value::unknown(), Type::Dynamic),
            "EmptyTupleVal" => return (Value::List(vec![]), Type::Tuple(vec![])),
            "EmptyObjectVal" => {
                return (Value::Map(Default::default()), Type::object::<String>([]));
            }
            _ => self.expect("("),
        }
        let read = match name {
            "StringVal" => (self.text().into(), Type::String),
            "NumberIntVal" => (self.number().into(), Type::Number),
            "NumberFloatVal" => {
                let float = Number::from_f64(self.number().to_f64()).unwrap();
                (float.into(), Type::Number)
            }
            "MustParseNumberVal" => (self.text().parse::<Number>().unwrap().into(), Type::Number),
            "NullVal" => (Value::Null, self.ty()),
            "UnknownVal" => (Value::unknown(), self.ty()),
            "ListValEmpty" => (Value::List(vec![]), Type::list(self.ty())),
            "SetValEmpty" => (Value::List(vec![]), Type::set(self.ty())),
            "MapValEmpty" => (Value::Map(Default::default()), Type::map(self.ty())),
            "ListVal" | "SetVal" | "TupleVal" => self.list(name),
            "MapVal" | "ObjectVal" => self.map(name),
            _ => panic!("value {name}"),
        };
        self.expect(")");
        let (value, ty) = read;
        (
            if self.rest.starts_with('.') {
                self.refined()
            } else {
                value
            },
            ty,
        )
    }

    fn list(&mut self, name: &str) -> (Value, Type) {
        self.expect("[]Value{");
        let mut elements = Vec::new();
        while !self.eat("}") {
            elements.push(self.value());
            self.eat(", ");
        }
        let (values, types): (Vec<_>, Vec<_>) = elements.into_iter().unzip();
        let ty = match name {
            "ListVal" => Type::list(types[0].clone()),
            "SetVal" => Type::set(types[0].clone()),
            _ => Type::Tuple(types),
        };
        (Value::List(values), ty)
    }

    fn map(&mut self, name: &str) -> (Value, Type) {
        self.expect("map[string]Value");
        let entries = self.entries(Parser::value);
        let types = entries
            .iter()
            .map(|(key, (_, ty))| (key.clone(), ty.clone()));
        let ty = match name {
            "MapVal" => Type::map(entries.values().next().unwrap().1.clone()),
            _ => Type::object(types),
        };
        (
            Value::object(entries.into_iter().map(|(key, (value, _))| (key, value))),
            ty,
        )
    }

    fn refined(&mut self) -> Value {
        let mut refinement = Refinement::default();
        while self.eat(".") {
            let name = self.take(char::is_alphanumeric);
            self.expect("(");
            match name {
                "Refine" | "NewValue" => {}
                "RefineNotNull" | "NotNull" => refinement.not_null = true,
                "StringPrefixFull" => refinement.prefix = Some(self.text()),
                "NumberLowerBound" => refinement.min = Some(self.bound()),
                "NumberUpperBound" => refinement.max = Some(self.bound()),
                "CollectionLengthLowerBound" => refinement.min_length = self.number().as_u64(),
                "CollectionLengthUpperBound" => refinement.max_length = self.number().as_u64(),
                _ => panic!("refinement {name}"),
            }
            self.expect(")");
        }
        Value::Unknown(Some(Box::new(refinement)))
    }

    fn bound(&mut self) -> Bound {
        let number = self.value().0.as_number().unwrap().clone();
        self.expect(", ");
        let inclusive = self.take(char::is_alphanumeric) == "true";
        Bound { number, inclusive }
    }
}
