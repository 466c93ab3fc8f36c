//! YAML of a JSON value, for people to read and `kubectl` to apply: block style, quotes where a plain word would mean something else.

use serde_json::Value;

/// The value as a YAML document, with a line end.
pub(super) fn render(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                indent(text, depth);
                text.push_str(&scalar(key));
                text.push(':');
                member(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                match item {
                    Value::Object(map) if !map.is_empty() => {
                        // The first key stands beside the dash.
                        let mut inner = String::new();
                        block(&mut inner, item, depth + 1);
                        text.push(' ');
                        text.push_str(inner.trim_start());
                    }
                    _ => member(text, item, depth),
                }
            }
        }
        _ => {
            text.push_str(&flat(value));
            text.push('\n');
        }
    }
}

fn member(text: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        text.push('\n');
        block(text, value, depth + 1);
    } else {
        text.push(' ');
        text.push_str(&flat(value));
        text.push('\n');
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::String(string) => scalar(string),
        // Numbers, true, false, null, {} and [] are the same in YAML.
        other => other.to_string(),
    }
}

/// A string: plain where nobody could read it as anything else, otherwise as JSON, whose strings are YAML.
fn scalar(string: &str) -> String {
    let word = string.starts_with(|first: char| first.is_ascii_alphabetic())
        && string
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '_'));
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if word && !reserved.contains(&string.to_ascii_lowercase().as_str()) {
        string.to_owned()
    } else {
        Value::from(string).to_string()
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let value = serde_json::json!({
            "a": {"b": [1, "two", {"c": true, "d": ["x", ["y", "z"], {}]}], "e": {}},
            "text": "it's: \"quoted\"\nand two lines", "no": "off", "number": "12", "nothing": null,
            "x-kubernetes-validations": [{"rule": "self.a <= self.b", "message": "a: b"}],
        });
        let text = render(&value);
        let back: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, value, "{text}");
    }
}
