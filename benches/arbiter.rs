//! How long one pass of the arbiter takes, and how that grows with the fleet.
//!
//! `cargo bench --bench arbiter`. Medians of repeated passes on one core, fleets of full nodes, 50 pools, and five claims a node, of which a part waits.
//! The figures of one machine mean little; the exponents should stay near one.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::time::Instant;

use loomplane::capacity::arbiter::check::check;
use loomplane::capacity::arbiter::plan::plan;
use loomplane::capacity::arbiter::snapshot::parse;

/// A mix of claims.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    /// Out of 100 claims, how many wait.
    waiting: u64,
    /// How many of the pools' ranks the waiting claims are spread over, from the highest.
    ranks: u64,
    /// Percent of the running claims that started moments ago.
    young: u64,
    /// Percent of the running claims that are noticed for some claim that waits: nearly all of these notices turn out to be of no use.
    noticed: u64,
}

const MIXES: [Mix; 5] = [
    Mix {
        name: "a fifth waits, all ranks",
        waiting: 20,
        ranks: 50,
        young: 0,
        noticed: 0,
    },
    Mix {
        name: "half waits, all ranks",
        waiting: 50,
        ranks: 50,
        young: 10,
        noticed: 0,
    },
    Mix {
        name: "half waits, high ranks",
        waiting: 50,
        ranks: 5,
        young: 10,
        noticed: 0,
    },
    Mix {
        name: "half waits, all young",
        waiting: 50,
        ranks: 50,
        young: 100,
        noticed: 0,
    },
    Mix {
        name: "half waits, notices to give up",
        waiting: 50,
        ranks: 25,
        young: 10,
        noticed: 20,
    },
];

const POOLS: u64 = 50;
const SIZES: [usize; 5] = [125, 250, 500, 1_000, 2_000];
/// The size that the goal of 20 ms is set for.
const GOAL_NODES: usize = 1_000;

fn main() {
    for mix in MIXES {
        println!("{}", mix.name);
        let mut points = Vec::new();
        for nodes in SIZES {
            let json = fleet(nodes, mix);
            let read = median(3, || drop(parse(&json)));
            let Ok(snapshot) = parse(&json) else {
                return println!("the fleet is not valid: {:?}", parse(&json).err());
            };
            let made = plan(&snapshot);
            let pass = median(if nodes > 500 { 9 } else { 15 }, || drop(plan(&snapshot)));
            let judge = median(3, || assert!(check(&snapshot, &made).is_empty()));
            points.push((nodes as f64, pass));
            let starts = made.actions.iter().filter(|action| {
                matches!(
                    action,
                    loomplane::capacity::arbiter::plan::Action::Start { .. }
                )
            });
            println!(
                "  {nodes:>5} nodes {:>6} claims: pass {pass:>8.2} ms{} (read {read:.1} ms, judge {judge:.1} ms; {} start, {} wait)",
                snapshot.claims.len(),
                if nodes == GOAL_NODES {
                    if pass <= 20.0 {
                        ", goal of 20 ms met"
                    } else {
                        ", goal of 20 ms missed"
                    }
                } else {
                    ""
                },
                starts.count(),
                made.waiting.len(),
            );
        }
        println!(
            "  growth: time ~ nodes^{:.2} (claims grow with nodes: linear in nodes times claims would be 2)",
            exponent(&points)
        );
    }
}

/// Milliseconds.
fn median(times: usize, mut work: impl FnMut()) -> f64 {
    let mut taken: Vec<f64> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    taken[times / 2]
}

/// The slope of a least-squares line through the logarithms.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) = (
        logs.iter().map(|p| p.0).sum::<f64>() / count,
        logs.iter().map(|p| p.1).sum::<f64>() / count,
    );
    let above: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    above / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

/// Numbers that vary and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A fleet as a snapshot file: nodes of 8 H100s, full but for a few cards, five claims a node.
fn fleet(nodes: usize, mix: Mix) -> String {
    let mut dice = Dice(nodes as u64);
    let pools: Vec<String> = (0..POOLS)
        .map(|pool| {
            let kind = if pool % 5 == 0 { "on_demand" } else { "spot" };
            let floor = dice.below(nodes as u64 / 50 + 2);
            format!(r#"{{"name":"pool-{pool:02}","type":"{kind}","rank":{},"floor":{floor},"ceiling":null}}"#, pool + 1)
        })
        .collect();
    let mut list = Vec::new();
    let mut claims = Vec::new();
    let total = nodes * 5;
    let running = total - total * mix.waiting as usize / 100;
    for node in 0..nodes {
        let ready = dice.below(100) != 0;
        list.push(format!(r#"{{"name":"node-{node:04}","gpus":8,"ready":{ready},"cordoned":false,"draining":false,"blocks":null}}"#));
    }
    let blocks: [&[&str]; 4] = [
        &["0", "1", "2", "3", "4", "5", "6", "7"],
        &["0,2", "1,3", "4,6", "5,7"],
        &["0,1,2,3", "4,5,6,7"],
        &["0,1,2,3,4,5,6,7"],
    ];
    for node in 0..nodes {
        let mut taken = 0_u32;
        // As many claims on each node as are due by now; large ones first find room more easily, so sizes are drawn anew until one fits.
        for _ in 0..40 {
            if claims.len() >= running * (node + 1) / nodes {
                break;
            }
            let size = [0, 0, 0, 1, 1, 2, 3][dice.below(7) as usize];
            let cards = |block: &str| {
                block.split(',').fold(0_u32, |set, card| {
                    set | 1 << card.parse::<u32>().unwrap_or(0)
                })
            };
            let Some(block) = blocks[size].iter().find(|block| taken & cards(block) == 0) else {
                continue;
            };
            taken |= cards(block);
            let started = if dice.below(100) < mix.young {
                "11:58"
            } else {
                ["08:00", "09:30", "10:15", "11:20"][dice.below(4) as usize]
            };
            let state = if dice.below(100) < mix.noticed {
                format!(
                    r#""state":"noticed","reason":"arbiter_stop","deadline":"2026-11-30T12:01:00Z","for":"want-{:05}""#,
                    running as u64 + dice.below((total - running) as u64)
                )
            } else {
                r#""state":"running""#.to_owned()
            };
            claims.push(format!(
                r#"{{"name":"vm-{:05}-{}","pool":"pool-{:02}","gpus":{},{state},"node":"node-{node:04}","cards":[{block}],"requested_at":"2026-11-30T07:00:00Z","started_at":"2026-11-30T{started}:{:02}Z"}}"#,
                dice.below(50_000),
                claims.len(),
                dice.below(POOLS),
                1 << size,
                dice.below(60),
            ));
        }
    }
    while claims.len() < total {
        let gpus = [1, 1, 2, 2, 4, 8][dice.below(6) as usize];
        claims.push(format!(
            r#"{{"name":"want-{:05}","pool":"pool-{:02}","gpus":{gpus},"state":"waiting","requested_at":"2026-11-30T11:{:02}:{:02}Z"}}"#,
            claims.len(),
            dice.below(mix.ranks),
            dice.below(59),
            dice.below(60),
        ));
    }
    format!(
        r#"{{"now":"2026-11-30T12:00:00Z","set":{{"name":"bench","gpu_kind":"nvidia-h100-80gb","fabric":"nvswitch","mode":"enforce","notice_seconds":120,"minimum_runtime_seconds":300}},"pools":[{}],"nodes":[{}],"claims":[{}]}}"#,
        pools.join(","),
        list.join(","),
        claims.join(",")
    )
}
