//! The label keys and resource names that placement knows.

/// A label whose value names the kind of a node's GPUs. The order is that of K2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindKey {
    /// `cloud.google.com/gke-accelerator`, set by GKE.
    GkeAccelerator,
    /// `nvidia.com/gpu.product`, set by GPU feature discovery.
    GpuProduct,
    /// `k8s.amazonaws.com/accelerator`, set by people on EKS.
    AwsAccelerator,
    /// `doks.digitalocean.com/gpu-model`, set by DOKS.
    DoksGpuModel,
}

impl KindKey {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 4] = [
        Self::GkeAccelerator,
        Self::GpuProduct,
        Self::AwsAccelerator,
        Self::DoksGpuModel,
    ];

    /// The label key.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::GkeAccelerator => "cloud.google.com/gke-accelerator",
            Self::GpuProduct => "nvidia.com/gpu.product",
            Self::AwsAccelerator => "k8s.amazonaws.com/accelerator",
            Self::DoksGpuModel => "doks.digitalocean.com/gpu-model",
        }
    }

    /// Reads a label key.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.label() == label)
    }

    /// The keys that are asked before this one.
    pub fn earlier(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().take_while(move |key| *key != self)
    }
}

/// The cloud's machine type: asked when no [`KindKey`] is there.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The architecture, set by every kubelet.
pub const ARCH: &str = "kubernetes.io/arch";
/// The region of the node.
pub const REGION: &str = "topology.kubernetes.io/region";

/// Whole NVIDIA devices (or slices, where a sharing sign is there).
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
/// Time slices under a name of their own.
pub const SHARED_RESOURCE: &str = "nvidia.com/gpu.shared";
/// AMD devices.
pub const AMD_RESOURCE: &str = "amd.com/gpu";
/// How resources and labels of MIG slices begin (strategy mixed).
pub const MIG_PREFIX: &str = "nvidia.com/mig-";

/// `none`, `time-slicing` or `mps`.
pub const SHARING_STRATEGY: &str = "nvidia.com/gpu.sharing-strategy";
/// The values of [`SHARING_STRATEGY`] that share a device.
pub const SHARING_STRATEGIES: [&str; 2] = ["time-slicing", "mps"];
/// Above 1: shared.
pub const REPLICAS: &str = "nvidia.com/gpu.replicas";
/// `true` in a guest with a vGPU.
pub const VGPU_PRESENT: &str = "nvidia.com/vgpu.present";
/// On GKE's shared pools only.
pub const GKE_SHARING_STRATEGY: &str = "cloud.google.com/gke-gpu-sharing-strategy";
/// On GKE's shared pools only.
pub const GKE_MAX_CLIENTS: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";
/// On GKE's MIG pools only.
pub const GKE_PARTITION_SIZE: &str = "cloud.google.com/gke-gpu-partition-size";

/// Physical GPUs on the node, by GPU feature discovery.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";
/// GPUs of a GKE node.
pub const GKE_COUNT: &str = "cloud.google.com/gke-accelerator-count";

/// The label by which GPU feature discovery counts slices of one profile.
#[must_use]
pub fn mig_count_label(resource: &str) -> String {
    format!("{resource}.count")
}

/// Whether a label counts MIG slices (`nvidia.com/mig-1g.5gb.count`).
#[must_use]
pub fn is_mig_count(key: &str) -> bool {
    key.starts_with(MIG_PREFIX) && key.ends_with(".count")
}

/// Labels that name no kind and say that there is a GPU; `None` as value: whatever the value.
const GPU_SIGNS: [(&str, Option<&str>); 11] = [
    ("nvidia.com/gpu.present", Some("true")),
    ("doks.digitalocean.com/gpu-brand", None),
    ("accelerator", Some("nvidia")),
    ("kubernetes.azure.com/accelerator", Some("nvidia")),
    ("karpenter.k8s.aws/instance-gpu-name", None),
    ("eks.amazonaws.com/instance-gpu-name", None),
    ("amd.com/gpu.product-name", None),
    ("feature.node.kubernetes.io/pci-10de.present", Some("true")),
    (
        "feature.node.kubernetes.io/pci-0300_10de.present",
        Some("true"),
    ),
    (
        "feature.node.kubernetes.io/pci-0302_10de.present",
        Some("true"),
    ),
    (GPU_COUNT, None),
];

/// Whether a label says that the node has a GPU.
#[must_use]
pub fn says_gpu(key: &str, value: &str) -> bool {
    if KindKey::from_label(key).is_some() {
        return true;
    }
    if key == GPU_COUNT && value == "0" {
        return false;
    }
    GPU_SIGNS
        .iter()
        .any(|(sign, wanted)| *sign == key && wanted.is_none_or(|wanted| wanted == value))
}

/// Labels that users select nodes by, on the clouds that we know: a service's `node_selector` with other keys can't be
/// checked at plan time.
const SELECTOR_LABELS: [&str; 16] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    REGION,
    "topology.kubernetes.io/zone",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-spot",
    "eks.amazonaws.com/nodegroup",
    "eks.amazonaws.com/capacityType",
    "alpha.eksctl.io/nodegroup-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/capacity-type",
    "kubernetes.azure.com/agentpool",
    "kubernetes.azure.com/scalesetpriority",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "doks.digitalocean.com/node-pool-id",
];

/// Whether a label is kept only because users select nodes by it.
#[must_use]
pub fn selector_label(key: &str) -> bool {
    SELECTOR_LABELS.contains(&key)
}

/// Stands for a label that an adapter does not keep: four bytes tell whether a node has what a node selector asks for, where 5,000
/// nodes with all their labels are tens of MiB.
#[must_use]
pub fn fingerprint(key: &str, value: &str) -> u32 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    // The lower half: that two labels of a cluster share it is a chance of one in many thousands, and lets a plan pass, no more.
    hasher.finish() as u32
}

/// Whether an adapter has to keep a node's label: all that placement can use, so that a list of 5,000 nodes stays small.
#[must_use]
pub fn relevant_label(key: &str) -> bool {
    KindKey::from_label(key).is_some()
        || [
            INSTANCE_TYPE,
            ARCH,
            SHARING_STRATEGY,
            REPLICAS,
            VGPU_PRESENT,
            GKE_SHARING_STRATEGY,
            GKE_MAX_CLIENTS,
            GKE_PARTITION_SIZE,
            GKE_COUNT,
        ]
        .contains(&key)
        || GPU_SIGNS.iter().any(|(sign, _)| *sign == key)
        || is_mig_count(key)
        || selector_label(key)
}
