//! Many runs of the CLI in each of which one thing goes wrong: what, when, and in which action, follows from a seed. After each the
//! state is right, the message is right, and the next apply finishes the job.
//!
//! A handful run with every other test; with `LOOMPLANE_TEST_HEAVY=1` they go on until the fault struck in [`HEAVY`] of them (a run that
//! was over before is none), which takes the better part of an hour.
//! `LOOMPLANE_FAULT_SEED=N` repeats one of them, `LOOMPLANE_FAULT_WORKERS` says how many run at a time.

mod check;
mod run;
mod script;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::l4;
use crate::cluster::{Cluster, NodeGroup, Parts};
use run::{Ended, Lab};
use script::{Action, FAULTS, Script};

/// Each fault three times.
const FEW: u64 = 24;
const HEAVY: u64 = 300;

/// What became of the runs of one fault in one action.
#[derive(Default)]
struct Row {
    runs: u32,
    /// The command succeeded, whatever happened.
    survived: u32,
    /// It failed, and the next apply finished the job.
    finished: u32,
    /// The command was over before the fault came.
    missed: u32,
    wrong: u32,
}

#[test]
fn whatever_goes_wrong_the_state_and_the_message_are_right_and_the_next_apply_finishes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let heavy = std::env::var_os("LOOMPLANE_TEST_HEAVY").is_some();
    let only = number("LOOMPLANE_FAULT_SEED");
    let workers = number("LOOMPLANE_FAULT_WORKERS").unwrap_or(if heavy { 4 } else { 2 });
    let (next, struck) = (AtomicU64::new(0), AtomicU64::new(0));
    // What is to be run next, until it is enough.
    let seed = || {
        let number = next.fetch_add(1, Ordering::SeqCst);
        match only {
            Some(only) => (number == 0).then_some(only),
            None if heavy => (struck.load(Ordering::SeqCst) < HEAVY).then_some(number),
            None => (number < FEW).then_some(number),
        }
    };
    let table: Mutex<BTreeMap<(usize, Action), Row>> = Mutex::default();
    let wrong: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..if only.is_some() { 1 } else { workers } {
            scope.spawn(|| {
                // A control plane each: killing an API server must not disturb the others.
                let Some(cluster) = Cluster::own(Parts::All, &[l4(4), NodeGroup::new("cpu", 2, 0)])
                else {
                    return;
                };
                let lab = Lab::new(&cluster);
                while let Some(seed) = seed() {
                    let script = Script::of(seed, seed >= FEW);
                    let begun = std::time::Instant::now();
                    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| lab.run(&script)));
                    lab.tidy();
                    if !matches!(ended, Ok(Ended::Missed)) {
                        struck.fetch_add(1, Ordering::SeqCst);
                    }
                    let mut table = table.lock().unwrap();
                    let row = table
                        .entry((script.fault_number(), script.action))
                        .or_default();
                    row.runs += 1;
                    let word = match ended {
                        Ok(Ended::Missed) => {
                            row.missed += 1;
                            "missed".to_owned()
                        }
                        Ok(Ended::Survived) => {
                            row.survived += 1;
                            "survived".to_owned()
                        }
                        Ok(Ended::Finished) => {
                            row.finished += 1;
                            "failed, then finished".to_owned()
                        }
                        Err(why) => {
                            row.wrong += 1;
                            let why = why
                                .downcast_ref::<String>()
                                .map(String::as_str)
                                .or_else(|| why.downcast_ref::<&str>().copied())
                                .unwrap_or("it panicked");
                            let text = format!("LOOMPLANE_FAULT_SEED={seed} ({script}): {why}");
                            wrong.lock().unwrap().push(text);
                            "WRONG".to_owned()
                        }
                    };
                    if heavy || only.is_some() {
                        say(&format!(
                            "seed {seed}: {script}: {word}, {:.0} s",
                            begun.elapsed().as_secs_f64()
                        ));
                    }
                }
            });
        }
    });
    let table = table.into_inner().unwrap();
    say(&rendered(&table));
    let wrong = wrong.into_inner().unwrap();
    let runs: u32 = table.values().map(|row| row.runs).sum();
    let missed: u32 = table.values().map(|row| row.missed).sum();
    assert!(
        runs < 2 || missed * 2 < runs,
        "most faults came too late: in {missed} of {runs} runs"
    );
    assert!(
        wrong.is_empty(),
        "{} runs went wrong:\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

fn rendered(table: &BTreeMap<(usize, Action), Row>) -> String {
    let mut text = format!(
        "{:<34} {:<8} {:>5} {:>9} {:>21} {:>7} {:>6}\n",
        "fault", "action", "runs", "survived", "failed then finished", "missed", "wrong"
    );
    let mut all = Row::default();
    for ((fault, action), row) in table {
        text += &format!(
            "{:<34} {:<8} {:>5} {:>9} {:>21} {:>7} {:>6}\n",
            FAULTS[*fault],
            action.to_string(),
            row.runs,
            row.survived,
            row.finished,
            row.missed,
            row.wrong
        );
        all.runs += row.runs;
        all.survived += row.survived;
        all.finished += row.finished;
        all.missed += row.missed;
        all.wrong += row.wrong;
    }
    text + &format!(
        "{:<34} {:<8} {:>5} {:>9} {:>21} {:>7} {:>6}",
        "all", "", all.runs, all.survived, all.finished, all.missed, all.wrong
    )
}

/// Past the test harness, which shows what a test prints only when it fails.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}
