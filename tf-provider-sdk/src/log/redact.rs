//! Values that must not show in a log.
//!
//! A provider registers each secret once it knows it; every log line and panic message is searched for all of them. That is a net under
//! careful logging, not a replacement for it: a value that was cut or computed with is not found.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// What stands in place of a secret.
const MASK: &str = "(hidden)";

/// Shorter values are not masked: they would be found in half of all words.
const SHORTEST_SECRET: usize = 4;

/// A line of a secret of several lines (a key, say) is masked on its own from this length on.
const SHORTEST_LINE: usize = 12;

static SECRETS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Masks `secret` in all that is logged from now on: as it is, escaped as `{:?}` does, in base64, and each of its longer lines.
///
/// Values below 4 bytes are not masked.
pub fn redact(secret: &str) {
    let mut forms = vec![
        secret.to_owned(),
        secret.escape_debug().to_string(),
        STANDARD.encode(secret),
        STANDARD_NO_PAD.encode(secret),
    ];
    if secret.contains('\n') {
        forms.extend(
            secret
                .lines()
                .map(str::trim)
                .filter(|line| line.len() >= SHORTEST_LINE)
                .map(str::to_owned),
        );
    }
    // A poisoned lock still guards whole strings.
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    for form in forms {
        if secret.len() >= SHORTEST_SECRET && !secrets.contains(&form) {
            secrets.push(form);
        }
    }
    // The longest first: a secret that holds a shorter one must go as a whole.
    secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
}

/// `text` with every registered secret masked.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = Cow::Borrowed(text);
    for secret in secrets.iter() {
        if text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret.as_str(), MASK));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_in_every_form() {
        redact("pa\"ss\\word-1");
        for (given, expected) in [
            ("a pa\"ss\\word-1 b", "a (hidden) b".to_owned()),
            (
                &format!("{:?}", "pa\"ss\\word-1"),
                "\"(hidden)\"".to_owned(),
            ),
            (
                &format!("Basic {}", STANDARD.encode("pa\"ss\\word-1")),
                "Basic (hidden)".to_owned(),
            ),
            ("nothing here", "nothing here".to_owned()),
        ] {
            assert_eq!(masked(given), expected);
        }
    }

    #[test]
    fn the_longer_of_two_secrets_goes_first() {
        redact("overlap-abc");
        redact("overlap-abc-and-more");
        assert_eq!(
            masked("x overlap-abc-and-more y overlap-abc"),
            "x (hidden) y (hidden)"
        );
    }

    #[test]
    fn a_line_of_a_key_is_masked_on_its_own() {
        redact("-----BEGIN KEY-----\nMIIBVgIBADANBgkq\nshort\n-----END KEY-----\n");
        assert_eq!(masked("line MIIBVgIBADANBgkq of it"), "line (hidden) of it");
        assert_eq!(masked("a short one"), "a short one");
    }

    #[test]
    fn a_value_too_short_to_mask_is_left() {
        redact("abc");
        redact("");
        assert_eq!(masked("abc and the alphabet"), "abc and the alphabet");
    }
}
