//! `provider::loomplane::gpu_kind`.

use tf_provider_sdk::function::{Arguments, Function, FunctionError, Parameter};

use crate::capacity::gpu::kind_of_text;

/// The function.
#[derive(Debug, Clone, Copy)]
pub struct GpuKind;

impl Function for GpuKind {
    const NAME: &'static str = "gpu_kind";
    const SUMMARY: &'static str =
        "The GPU kind that a label value, an nvidia-smi name or a kind ID means";
    const DESCRIPTION: &'static str = "Takes a node label's value (such as `NVIDIA-L4`), a name as `nvidia-smi` prints it (such as `NVIDIA H100 80GB HBM3`) or \
        a kind ID, and returns the kind ID (such as `nvidia-l4`). The whole text must match, in upper or lower case; what the device plugin appends for a shared card or a slice (`-SHARED`, `-MIG-1g.10gb`) is set aside, since the kind is the card's. A text that means no kind, or that could mean two, is an error that names what comes near.";
    type Output = String;

    fn parameters() -> Vec<Parameter> {
        vec![Parameter::of::<String>(
            "text",
            "A label value, an nvidia-smi name or a kind ID.",
        )]
    }

    fn call(arguments: Arguments) -> Result<String, FunctionError> {
        let text: String = arguments.get(0)?;
        let kind =
            kind_of_text(&text).map_err(|why| FunctionError::argument(0, why.to_string()))?;
        Ok(kind.id().to_owned())
    }
}
