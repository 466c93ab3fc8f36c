//! `provider::loomplane::price_total`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tf_provider_sdk::{
    function::{Arguments, Function, FunctionError, Parameter},
    number::Number,
};

use crate::{
    capacity::price::price_total,
    provider::report::{self, decimal},
};

/// The function.
#[derive(Debug, Clone, Copy)]
pub struct PriceTotal;

/// A total of prices.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Total {
    /// Sum in US dollars an hour; null as soon as one part is unknown.
    pub hourly_usd: Option<Number>,
    /// Sum of the known parts.
    pub at_least_usd: Option<Number>,
    /// Names of the parts whose price is unknown.
    pub unknown: Vec<String>,
    /// The total in words.
    pub text: String,
}

impl Function for PriceTotal {
    const NAME: &'static str = "price_total";
    const SUMMARY: &'static str = "The sum of hourly prices, honest about unknown ones";
    const DESCRIPTION: &'static str = "Takes a map of name to US dollars an hour, such as `{ for k, s in loomplane_gpu_service.all : k => s.hourly_usd }`, and returns \
        `hourly_usd` (null as soon as one part is null), `at_least_usd` (the sum of what is known), `unknown` (the names of the other parts) and `text`. \
        A service without GPUs has no share, and null for it: leave those out, as in `{ for k, s in loomplane_gpu_service.all : k => s.hourly_usd if s.price != \"no GPU share\" }`.";
    type Output = Total;

    fn parameters() -> Vec<Parameter> {
        vec![Parameter::of::<BTreeMap<String, Option<Number>>>(
            "prices",
            "US dollars an hour by name; null where a price is unknown.",
        )]
    }

    fn call(arguments: Arguments) -> Result<Total, FunctionError> {
        let prices: BTreeMap<String, Option<Number>> = arguments.get(0)?;
        let mut parts = BTreeMap::new();
        for (name, price) in prices {
            let price = match price {
                None => None,
                Some(number) => Some(decimal(&number).ok_or_else(|| {
                    FunctionError::argument(
                        0,
                        format!("{name}: {number} is no amount of US dollars."),
                    )
                })?),
            };
            parts.insert(name, price);
        }
        let total =
            price_total(&parts).map_err(|why| FunctionError::argument(0, why.to_string()))?;
        Ok(Total {
            hourly_usd: total.hourly.map(report::dollars),
            at_least_usd: total.at_least.map(report::dollars),
            unknown: total.unknown,
            text: total.text,
        })
    }
}
