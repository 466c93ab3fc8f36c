//! Acceptance tests.

mod kubernetes_adapter;
