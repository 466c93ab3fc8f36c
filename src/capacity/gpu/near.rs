//! Near misses: which known kinds a text that names none may have meant.

use std::collections::BTreeSet;

use super::Kind;
use crate::capacity::catalog;

/// How many kinds a near miss names.
const NAMED: usize = 3;

/// The nearest kinds by edit distance to any of their names; a shared model number (`h100`, `4000`) outweighs it.
pub(super) fn nearest(text: &str) -> Vec<Kind> {
    let asked = normal(text);
    let models = model_words(&asked);
    let mut scored: Vec<(usize, Kind)> = Kind::ALL
        .into_iter()
        .map(|kind| {
            let best = std::iter::once(kind.id().to_owned())
                .chain(catalog::get().names_of_kind(kind).map(normal))
                .map(|name| {
                    let distance = edit_distance(&asked, &name);
                    // A model number in common says more than any spelling does.
                    let same_model = model_words(&name).intersection(&models).next().is_some();
                    if same_model { distance } else { distance + 100 }
                })
                .min();
            (best.unwrap_or(usize::MAX), kind)
        })
        .collect();
    scored.sort();
    let found = scored.iter().filter(|(score, _)| *score < 100).count();
    // Where the model number fits some kinds, only those; else the nearest spellings.
    let take = if found > 0 { found.min(NAMED) } else { NAMED };
    scored
        .into_iter()
        .take(take)
        .map(|(_, kind)| kind)
        .collect()
}

fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // A label value has at most 63 characters: a longer text is no near miss of anything.
    for letter in text.chars().take(80) {
        if letter.is_ascii_alphanumeric() {
            out.push(letter.to_ascii_lowercase());
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    out
}

/// The words that carry a model number, without memory sizes: `h100` and not `80gb`.
fn model_words(name: &str) -> BTreeSet<String> {
    name.split('-')
        .filter(|word| word.chars().any(|letter| letter.is_ascii_digit()))
        .filter(|word| !word.ends_with("gb"))
        .map(ToOwned::to_owned)
        .collect()
}

fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, r) in right.iter().enumerate() {
            let (left_of, above) = (row[j], row[j + 1]);
            row[j + 1] = (diagonal + usize::from(l != *r))
                .min(left_of + 1)
                .min(above + 1);
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or_default()
}
