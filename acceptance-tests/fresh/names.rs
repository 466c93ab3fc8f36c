//! Names of attributes in configurations. `validate` alone does not judge them: in an object, core drops a name that the schema does
//! not have, without a word.

use loomplane::docs;
use tf_provider_sdk::schema::{Attribute, Attributes, Kind, Nesting, Schema};

/// What core takes in every resource or data source.
const META: [&str; 4] = ["count", "for_each", "provider", "depends_on"];

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Mark(char),
    Line,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(one) = rest.next() {
        match one {
            '\n' => found.push(Token::Line),
            '#' => while rest.next_if(|it| *it != '\n').is_some() {},
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|it| *it != '\n').is_some() {},
            '"' => {
                let (mut text, mut depth) = (String::new(), 0_u32);
                while let Some(one) = rest.next() {
                    match one {
                        '"' if depth == 0 => break,
                        '\\' => drop(rest.next()),
                        '{' if depth > 0 || text.ends_with('$') => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        _ => {}
                    }
                    text.push(one);
                }
                found.push(Token::Text(text));
            }
            one if one.is_alphanumeric() || one == '_' => {
                let mut name = one.to_string();
                while let Some(more) =
                    rest.next_if(|it| it.is_alphanumeric() || *it == '_' || *it == '-')
                {
                    name.push(more);
                }
                found.push(Token::Name(name));
            }
            one if one.is_whitespace() => {}
            one => found.push(Token::Mark(one)),
        }
    }
    found
}

/// Reads a configuration, and collects the names that no schema has.
struct Reader {
    tokens: Vec<Token>,
    at: usize,
    wrong: Vec<String>,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is(&self, mark: char) -> bool {
        self.peek() == Some(&Token::Mark(mark))
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn skip_lines_and_commas(&mut self) {
        while matches!(self.peek(), Some(Token::Line | Token::Mark(','))) {
            self.at += 1;
        }
    }

    /// To the end of an expression, past whatever it is made of.
    fn skip_expression(&mut self) {
        let mut depth = 0_u32;
        while let Some(token) = self.peek() {
            match token {
                Token::Line | Token::Mark(',') if depth == 0 => return,
                Token::Mark('}' | ']' | ')') if depth == 0 => return,
                Token::Mark('{' | '[' | '(') => depth += 1,
                Token::Mark('}' | ']' | ')') => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// The inside of braces; `element` says what a name stands for, `None` where no such name may be there.
    fn object(&mut self, path: &str, is_root: bool, element: &dyn Fn(&str) -> Option<Found>) {
        self.at += 1;
        loop {
            self.skip_lines_and_commas();
            let name = match self.next() {
                Some(Token::Name(name) | Token::Text(name)) => name,
                Some(Token::Mark('}')) | None => return,
                // A key that is computed: nothing to compare.
                Some(_) => {
                    self.skip_expression();
                    continue;
                }
            };
            let path = format!("{path}.{name}");
            if self.is('{') {
                // A block, such as `lifecycle`.
                self.skip_expression();
                continue;
            }
            if name == "for" || !(self.is('=') || self.is(':')) {
                self.skip_expression();
                continue;
            }
            self.at += 1;
            let found = element(&name);
            if found.is_none() && !(is_root && META.contains(&name.as_str())) {
                self.wrong.push(path.clone());
            }
            self.value(&path, found.unwrap_or(Found::Free));
        }
    }

    fn value(&mut self, path: &str, found: Found) {
        match found {
            Found::Object(attributes) if self.is('{') => {
                self.object(path, false, &|name| attributes.get(name).map(Found::of));
            }
            Found::Map(attributes) if self.is('{') => {
                self.object(path, false, &|_| Some(Found::Object(attributes.clone())));
            }
            Found::List(attributes) if self.is('[') => {
                self.at += 1;
                loop {
                    self.skip_lines_and_commas();
                    match self.peek() {
                        Some(Token::Mark('{')) => {
                            self.value(path, Found::Object(attributes.clone()));
                        }
                        Some(Token::Mark(']')) => break,
                        None => return,
                        Some(_) => self.skip_expression(),
                    }
                }
                self.at += 1;
            }
            _ => {}
        }
        self.skip_expression();
    }
}

/// What a value is made of.
enum Found {
    Object(Attributes),
    Map(Attributes),
    List(Attributes),
    Free,
}

impl Found {
    fn of(attribute: &Attribute) -> Self {
        match &attribute.kind {
            Kind::Nested(Nesting::Single, inner) => Self::Object(inner.clone()),
            Kind::Nested(Nesting::Map, inner) => Self::Map(inner.clone()),
            Kind::Nested(_, inner) => Self::List(inner.clone()),
            Kind::Plain(_) => Self::Free,
        }
    }
}

/// Names in a configuration that the provider's schemas do not have, with the path to each.
pub(super) fn unknown(text: &str) -> Vec<String> {
    let offered = docs::offered().unwrap();
    let mut reader = Reader {
        tokens: tokens(text),
        at: 0,
        wrong: Vec::new(),
    };
    while let Some(token) = reader.next() {
        let Token::Name(block) = token else { continue };
        let Some(Token::Text(label)) = reader.peek().cloned() else {
            continue;
        };
        let schema: Option<&Schema> = match block.as_str() {
            "resource" => offered.resources.get(label.as_str()),
            "data" => offered.data_sources.get(label.as_str()),
            "provider" if label == "loomplane" => Some(&offered.provider),
            _ => None,
        };
        while matches!(reader.peek(), Some(Token::Text(_))) {
            reader.at += 1;
        }
        if let Some(schema) = schema.filter(|_| reader.is('{')) {
            let of = |name: &str| schema.attributes.get(name).map(Found::of);
            reader.object(&label, true, &of);
        }
    }
    reader.wrong
}

#[test]
fn a_name_that_no_schema_has_is_found_at_every_depth() {
    let text = r#"
        provider "loomplane" {
          clusters = {
            prod = { config_path = "~/.kube/${var.x == "a" ? "b" : "c"}", naemspace = "x" } # no { here
          }
        }
        resource "loomplane_gpu_service" "llm" {
          for_each = { a = { b = 1 } }
          name     = "llm"
          imgae    = "x"
          size = {
            memroy = 1
            gpu    = { kind = "nvidia-l4", cuont = 1 }
          }
          ports = [
            { name = "http", prot = 8000 },
          ]
          env     = { ANYTHING = "goes" }
          volumes = { for name, size in var.volumes : name => { mount_path = "/x", siez_gib = size } }
          lifecycle { ignore_changes = [size] }
          wiat = true
        }
        data "loomplane_server" "rack1" { nmae = "rack1" }
        resource "terraform_data" "other" { anything = 1 }
    "#;
    assert_eq!(
        unknown(text),
        [
            "loomplane.clusters.prod.naemspace",
            "loomplane_gpu_service.imgae",
            "loomplane_gpu_service.size.memroy",
            "loomplane_gpu_service.size.gpu.cuont",
            "loomplane_gpu_service.ports.prot",
            "loomplane_gpu_service.wiat",
            "loomplane_server.nmae",
        ]
    );
}
