//! Tests of the planner as a whole: random fleets against the judge, against an exhaustive search, and against themselves.

mod apply;
mod exhaustive;
mod generate;
mod planned_again;
mod properties;
