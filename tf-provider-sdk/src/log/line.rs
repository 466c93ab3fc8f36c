//! One hclog line: JSON that Terraform's parser takes.
//!
//! Terraform asserts that `@level`, `@message` and `@timestamp` are strings, and crashes if they are not; a timestamp without exactly
//! six fraction digits makes it log the raw line; and it cuts lines above 64 KiB into pieces. All three are kept to here.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::Level;

use super::level;
use super::redact::masked;

/// Longest line, newline included: below the 64 KiB at which Terraform cuts.
const LONGEST_LINE: usize = 60 * 1024;

/// Longest message or value, in bytes of JSON.
const LONGEST_TEXT: usize = 16 * 1024;

/// Space kept for the mark that says that fields were left out, and for the end of the line.
const RESERVE: usize = 64;

/// A value beside the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Written as a JSON string, with secrets masked.
    Text(String),
    /// Written as it is: a JSON number or Boolean.
    Bare(String),
}

/// Renders a line, with its newline. A later field of the same name replaces an earlier one.
pub(crate) fn render(
    time: SystemTime,
    at: Level,
    module: &str,
    message: &str,
    fields: &[(String, Value)],
) -> String {
    let mut line = String::with_capacity(256);
    line.push_str("{\"@level\":");
    push_text(&mut line, level::name(at));
    line.push_str(",\"@message\":");
    push_text(&mut line, &masked(message));
    line.push_str(",\"@module\":");
    push_text(&mut line, &module.replace("::", "."));
    line.push_str(",\"@timestamp\":");
    push_text(&mut line, &timestamp(time));
    let mut left_out = 0;
    for (index, (name, value)) in fields.iter().enumerate() {
        if fields[index + 1..].iter().any(|(later, _)| later == name) {
            continue;
        }
        let before = line.len();
        line.push(',');
        // Keys that start with @ are Terraform's.
        push_text(&mut line, name.trim_start_matches('@'));
        line.push(':');
        match value {
            Value::Text(text) => push_text(&mut line, &masked(text)),
            Value::Bare(json) => line.push_str(json),
        }
        if line.len() > LONGEST_LINE - RESERVE {
            line.truncate(before);
            left_out += 1;
        }
    }
    if left_out > 0 {
        // Writing to a String can't fail.
        let _ = write!(line, ",\"fields_left_out\":{left_out}");
    }
    line.push_str("}\n");
    line
}

/// Appends a JSON string; what would make it longer than [`LONGEST_TEXT`] is cut, and the cut marked.
fn push_text(line: &mut String, text: &str) {
    line.push('"');
    let start = line.len();
    for (at, c) in text.char_indices() {
        if line.len() - start > LONGEST_TEXT {
            let _ = write!(line, "... ({} more bytes)", text.len() - at);
            break;
        }
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            // U+2028 and U+2029 end a line for some readers.
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

/// UTC in Go's layout `2006-01-02T15:04:05.000000Z07:00`. A clock before 1970 reads as 1970.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z",
        since.subsec_micros()
    )
}

/// The Gregorian date so many days after 1970-01-01, counted in years that start on March 1st: leap days then come last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From 0000-03-01 to 1970-01-01.
    const TO_1970: u64 = 719_468;
    let days = days + TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, micros: u32) -> SystemTime {
        UNIX_EPOCH + Duration::new(seconds, micros * 1000)
    }

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    fn parsed(line: &str) -> serde_json::Value {
        assert!(
            line.ends_with('\n') && line.matches('\n').count() == 1,
            "one line: {line:?}"
        );
        serde_json::from_str(line).expect("JSON")
    }

    #[test]
    fn timestamps_have_six_fraction_digits_and_the_right_date() {
        for (seconds, micros, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, 5, "2000-02-28T23:59:59.000005Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199, 999_999, "2024-02-29T23:59:59.999999Z"),
            (1_735_689_600, 120_000, "2025-01-01T00:00:00.120000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(timestamp(at(seconds, micros)), expected);
        }
    }

    #[test]
    fn a_line_holds_level_message_module_time_and_fields() {
        let fields = [
            ("count".to_owned(), Value::Bare("3".into())),
            ("id".to_owned(), text("a")),
            ("id".to_owned(), text("b")),
        ];
        let line = render(
            at(0, 0),
            Level::WARN,
            "loomplane::fit",
            "two\nlines \"quoted\" \u{1}\u{2028}",
            &fields,
        );
        assert_eq!(
            parsed(&line),
            serde_json::json!({
                "@level": "warn", "@message": "two\nlines \"quoted\" \u{1}\u{2028}", "@module": "loomplane.fit",
                "@timestamp": "1970-01-01T00:00:00.000000Z", "count": 3, "id": "b",
            })
        );
        assert!(!line.contains('\u{2028}'));
    }

    #[test]
    fn no_field_can_replace_what_terraform_asserts_to_be_a_string() {
        let fields = [
            ("@message".to_owned(), Value::Bare("5".into())),
            ("@@level".to_owned(), Value::Bare("true".into())),
        ];
        let line = parsed(&render(at(0, 0), Level::INFO, "m", "text", &fields));
        assert_eq!(
            (line["@message"].as_str(), line["@level"].as_str()),
            (Some("text"), Some("info"))
        );
        assert_eq!(
            (&line["message"], &line["level"]),
            (&serde_json::json!(5), &serde_json::json!(true))
        );
    }

    #[test]
    fn no_line_reaches_64_kib_and_a_cut_is_marked() {
        let long = "\u{1}€".repeat(40_000);
        let fields: Vec<_> = (0..40).map(|i| (format!("f{i}"), text(&long))).collect();
        let line = render(at(0, 0), Level::INFO, "m", &long, &fields);
        assert!(line.len() < 64 * 1024, "{}", line.len());
        let line = parsed(&line);
        assert!(
            line["@message"]
                .as_str()
                .is_some_and(|m| m.ends_with(" more bytes)"))
        );
        assert!(line["fields_left_out"].as_u64().is_some_and(|n| n >= 30));
        let short = parsed(&render(at(0, 0), Level::INFO, "m", "short", &fields[..1]));
        assert_eq!(short.get("fields_left_out"), None);
    }

    #[test]
    fn secrets_are_masked_in_message_and_fields() {
        super::super::redact::redact("s3cr3t-of-a-line");
        let line = render(
            at(0, 0),
            Level::INFO,
            "m",
            "is s3cr3t-of-a-line",
            &[("token".into(), text("s3cr3t-of-a-line"))],
        );
        assert!(
            !line.contains("s3cr3t") && line.matches("(hidden)").count() == 2,
            "{line}"
        );
    }
}
