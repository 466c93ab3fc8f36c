//! A data source, an ephemeral resource and functions.

use std::time::Duration;

use tf_provider_sdk::{number::Number, prelude::*};

use super::{Client, Cx};

/// Says it louder.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Echo {
    /// What to say.
    text: String,
    /// What was said.
    said: Computed<String>,
}

impl DataSource for Echo {
    const TYPE: &'static str = "probe_echo";
    type Client = Client;

    fn validate(&self, report: &mut Diagnostics) {
        if self.text == "bad" {
            report.error("text", "Bad text", "text is \"bad\".");
        }
    }

    async fn read(mut self, cx: &Cx<'_>) -> Result<Self, Diagnostics> {
        cx.client.note(&format!("echo {}", self.text));
        match self.text.as_str() {
            "panic" => panic!("the echo fell silent"),
            "error" => {
                return Err(Diagnostic::error("No echo", "text is \"error\".")
                    .at("text")
                    .into());
            }
            "lie" => self.text = "truth".to_owned(),
            _ => {}
        }
        self.said = self.text.to_uppercase().into();
        Ok(self)
    }
}

/// Something lent for one run.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Lease {
    /// To whom.
    name: String,
    /// A secret for the run.
    token: Sensitive<Computed<String>>,
}

impl Ephemeral for Lease {
    const TYPE: &'static str = "probe_lease";
    type Client = Client;

    async fn open(mut self, cx: &Cx<'_>) -> Result<Opened<Self>, Diagnostics> {
        cx.client.note(&format!("open {}", self.name));
        let handle = self.name.clone().into_bytes();
        self.token = Sensitive(format!("token-of-{}", self.name).into());
        Ok(Opened {
            value: self,
            handle,
            renew_in: Some(Duration::from_secs(1)),
        })
    }

    async fn renew(handle: Vec<u8>, cx: &Cx<'_>) -> Result<Renewal, Diagnostics> {
        cx.client
            .note(&format!("renew {}", String::from_utf8_lossy(&handle)));
        let renew_in = Some(Duration::from_secs(1));
        Ok(Renewal {
            handle: [handle, b"+".to_vec()].concat(),
            renew_in,
        })
    }

    async fn close(handle: Vec<u8>, cx: &Cx<'_>) -> Result<(), Diagnostics> {
        cx.client
            .note(&format!("close {}", String::from_utf8_lossy(&handle)));
        Ok(())
    }
}

pub(crate) struct Divide;

impl Function for Divide {
    const NAME: &'static str = "divide";
    const SUMMARY: &'static str = "One number by another";
    type Output = Number;

    fn parameters() -> Vec<Parameter> {
        vec![
            Parameter::of::<f64>("dividend", "What to divide."),
            Parameter::of::<f64>("divisor", "What to divide it by."),
        ]
    }

    fn call(arguments: Arguments) -> Result<Number, FunctionError> {
        let (dividend, divisor): (f64, f64) = (arguments.get(0)?, arguments.get(1)?);
        if dividend == 13.0 {
            panic!("thirteen");
        }
        Number::from_f64(dividend / divisor)
            .ok()
            .filter(Number::is_finite)
            .ok_or_else(|| FunctionError::argument(1, "the divisor is zero"))
    }
}

pub(crate) struct Join;

impl Function for Join {
    const NAME: &'static str = "join";
    const SUMMARY: &'static str = "Words with something in between";
    type Output = String;

    fn parameters() -> Vec<Parameter> {
        vec![Parameter::of::<String>(
            "between",
            "What to put in between.",
        )]
    }

    fn variadic() -> Option<Parameter> {
        Some(Parameter::of::<String>("words", "The words."))
    }

    fn call(arguments: Arguments) -> Result<String, FunctionError> {
        let between: String = arguments.get(0)?;
        Ok(arguments.rest::<String>(1)?.join(&between))
    }
}

pub(crate) struct OrElse;

impl Function for OrElse {
    const NAME: &'static str = "or_else";
    const SUMMARY: &'static str = "A text, or another where it is null";
    type Output = String;

    fn parameters() -> Vec<Parameter> {
        vec![
            Parameter::of::<Option<String>>("text", "Perhaps a text."),
            Parameter::of::<String>("otherwise", "The other one."),
        ]
    }

    fn call(arguments: Arguments) -> Result<String, FunctionError> {
        Ok(arguments
            .get::<Option<String>>(0)?
            .unwrap_or(arguments.get(1)?))
    }
}
