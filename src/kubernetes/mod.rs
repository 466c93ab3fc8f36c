//! kubernetes.
