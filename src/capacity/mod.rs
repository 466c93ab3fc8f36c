//! The domain: what a GPU request means, whether a target can meet it, and at what price.
//!
//! Pure: no I/O, no async, no clock, no randomness, no environment, no logging. Imports no other room.
//!
//! | file | question that it answers |
//! |---|---|
//! | [`gpu`] | which kinds of GPU there are, and what a request may ask for |
//! | [`catalog`] | what is known about label values, instance types, card names and list prices (`data/`) |
//! | [`node`], [`label`] | what a Kubernetes node has: kind, whole devices or slices |
//! | [`admission`], [`taint`] | what confines a pod to the right nodes, and what lets it in |
//! | [`fit`] | can this cluster meet this request, and if not, why |
//! | [`price`] | what it costs, or that nobody knows |
//! | [`size`], [`volume`] | is the rest of the request sound |
//! | [`text`] | words that several of them share |
//! | [`server`], [`ledger`] | what an own server has, who holds its cards, which ones to give |
//! | [`fabric`] | which cards of one node a fabric can hand out together |
//! | [`arbiter`] | capacity sets: who gets which cards when there are not enough |

pub mod admission;
pub mod arbiter;
pub mod catalog;

pub mod fabric;
pub mod fit;
pub mod gpu;
pub mod label;
pub mod ledger;
pub mod node;
pub mod price;
pub mod server;
pub mod size;
pub mod taint;
pub mod text;
pub mod volume;
