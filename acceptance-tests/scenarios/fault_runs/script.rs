//! What a seed means: an action on some services, a fault, and when it strikes.

use std::fmt;
use std::time::Duration;

/// By number: the order of the table.
pub(super) const FAULTS: [&str; 8] = [
    "Ctrl-C",
    "kill -9 of the provider",
    "API server killed",
    "500",
    "429 with Retry-After",
    "a slow list (destroy: read)",
    "a watch (destroy: read) that drops",
    "410",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Create,
    Update,
    Destroy,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Destroy => "destroy",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    /// Ports and secret_env.
    Parts,
    Volume,
    Gpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    CtrlC,
    KillProvider,
    /// It is back after this time; `None`: only once the command has ended.
    KillApiServer {
        back: Option<Duration>,
    },
    /// So many times; `None`: until the command has ended.
    ServerError {
        times: Option<u32>,
    },
    Throttle {
        times: u32,
    },
    SlowList(Duration),
    /// Cut after so many bytes, so many times.
    WatchDrops {
        bytes: usize,
        times: u32,
    },
    /// As an event of the stream, or as the answer.
    Expired {
        event: bool,
        times: u32,
    },
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    /// At the n-th request, or the n-th that changes something; before the API server sees it, or once it has carried it out.
    Request {
        n: u32,
        write: bool,
        carried_out: bool,
    },
    /// So long after Terraform says that it begins.
    Moment(Duration),
    /// So long after a pod of the new form is there; for a destroy, after the Deployment is on its way out.
    Wait(Duration),
}

#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) action: Action,
    pub(super) shapes: Vec<Shape>,
    pub(super) fault: Fault,
    pub(super) strike: Strike,
    /// Straight to the API server, where nothing needs the proxy: refused connections, not dropped ones.
    pub(super) direct: bool,
    pub(super) delete_volume: bool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
    fn one_of(&mut self, most: u64) -> bool {
        self.below(most) == 0
    }
}

impl Script {
    /// The faults in turn, each with the actions in turn; the rest is drawn. `long` admits faults that stay until the command ends.
    pub(super) fn of(seed: u64, long: bool) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        let actions = [Action::Create, Action::Update, Action::Destroy];
        // A destroy watches nothing, so there is nothing that could expire.
        let action = actions[(seed / 8 % if seed % 8 == 7 { 2 } else { 3 }) as usize];
        let shapes = (0..1 + random.below(3))
            .map(|_| {
                [Shape::Plain, Shape::Parts, Shape::Volume, Shape::Gpu][random.below(4) as usize]
            })
            .collect();
        let stays = random.one_of(10) && long;
        let fault = match seed % 8 {
            0 => Fault::CtrlC,
            1 => Fault::KillProvider,
            2 => Fault::KillApiServer {
                back: (!stays).then(|| Duration::from_millis(random.below(4000))),
            },
            3 => Fault::ServerError {
                times: (!stays).then(|| 1 + random.below(3) as u32),
            },
            4 => Fault::Throttle {
                times: 1 + random.below(6) as u32,
            },
            5 => Fault::SlowList(Duration::from_millis(500 + random.below(5000))),
            6 => Fault::WatchDrops {
                bytes: random.below(6000) as usize,
                times: 1 + random.below(8) as u32,
            },
            _ => Fault::Expired {
                event: random.one_of(2),
                times: 1 + random.below(4) as u32,
            },
        };
        let later = Duration::from_millis(random.below(1500));
        let strike = match random.below(4) {
            0 => Strike::Moment(later),
            1 => Strike::Wait(later),
            kind => {
                let write = kind == 2;
                Strike::Request {
                    n: random.below(if write { 4 } else { 14 }) as u32,
                    write,
                    carried_out: random.one_of(2),
                }
            }
        };
        let direct = matches!(
            fault,
            Fault::CtrlC | Fault::KillProvider | Fault::KillApiServer { .. }
        ) && !matches!(strike, Strike::Request { .. })
            && random.one_of(2);
        Self {
            seed,
            action,
            shapes,
            fault,
            strike,
            direct,
            delete_volume: action == Action::Destroy && random.one_of(2),
        }
    }

    pub(super) fn fault_number(&self) -> usize {
        (self.seed % 8) as usize
    }

    /// Whether a user must not notice it.
    pub(super) fn passes(&self) -> bool {
        match self.fault {
            Fault::CtrlC | Fault::KillProvider => false,
            Fault::KillApiServer { back } => back.is_some(),
            Fault::ServerError { times } => times.is_some(),
            Fault::Throttle { .. }
            | Fault::SlowList(_)
            | Fault::WatchDrops { .. }
            | Fault::Expired { .. } => true,
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {:?}, {:?} at {:?}",
            self.action, self.shapes, self.fault, self.strike
        )?;
        if self.direct {
            f.write_str(", without the proxy")?;
        }
        Ok(())
    }
}
