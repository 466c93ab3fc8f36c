//! Calls about functions.

use super::{
    Service,
    convert::{from_dynamic, to_diagnostics, to_dynamic},
};
use crate::{
    diagnostic::Diagnostics,
    erased::AnyFunction,
    function::{FunctionError, Parameter},
    generated::tfplugin6 as pb,
    provider::Provider,
    schema::SchemaError,
};

const MARKDOWN: i32 = pb::StringKind::Markdown as i32;

pub(super) fn to_function(function: &dyn AnyFunction) -> Result<pb::Function, SchemaError> {
    let parameters = function.parameters().into_iter().map(to_parameter);
    Ok(pb::Function {
        parameters: parameters.collect::<Result<_, SchemaError>>()?,
        variadic_parameter: function.variadic().map(to_parameter).transpose()?,
        r#return: Some(pb::function::Return {
            r#type: function.output()?.to_json(),
        }),
        summary: function.summary().to_owned(),
        description: function.description().to_owned(),
        description_kind: MARKDOWN,
        ..Default::default()
    })
}

fn to_parameter(parameter: Parameter) -> Result<pb::function::Parameter, SchemaError> {
    Ok(pb::function::Parameter {
        name: parameter.name.to_owned(),
        r#type: (parameter.ty)()?.to_json(),
        // Terraform refuses a null for the others itself.
        allow_null_value: parameter.nullable,
        description: parameter.description.to_owned(),
        description_kind: MARKDOWN,
        ..Default::default()
    })
}

pub(super) async fn get_functions<P: Provider>(
    service: &Service<P>,
    _: &pb::get_functions::Request,
) -> pb::get_functions::Response {
    let mut response = pb::get_functions::Response::default();
    let mut report = Diagnostics::none();
    for (name, function) in &service.functions {
        match to_function(function.as_ref()) {
            Ok(function) => drop(response.functions.insert((*name).to_owned(), function)),
            Err(why) => report.push(crate::erased::schema_fault(name, &why)),
        }
    }
    response.diagnostics = to_diagnostics(report);
    response
}

pub(super) async fn call_function<P: Provider>(
    service: &Service<P>,
    request: &pb::call_function::Request,
) -> pb::call_function::Response {
    match outcome(service, request) {
        Ok(result) => pb::call_function::Response {
            result: Some(result),
            error: None,
        },
        Err(why) => pb::call_function::Response {
            result: None,
            error: Some(pb::FunctionError {
                // Core ends the sentence.
                text: why.text.trim_end_matches('.').to_owned(),
                function_argument: why.argument.and_then(|index| i64::try_from(index).ok()),
            }),
        },
    }
}

fn outcome<P: Provider>(
    service: &Service<P>,
    request: &pb::call_function::Request,
) -> Result<pb::DynamicValue, FunctionError> {
    let function = service
        .functions
        .get(request.name.as_str())
        .ok_or_else(|| {
            FunctionError::new(format!(
                "There is no function {} in this version of the provider.",
                request.name
            ))
        })?;
    let (parameters, variadic) = (function.parameters(), function.variadic());
    let given = request.arguments.len();
    if given < parameters.len() || given > parameters.len() && variadic.is_none() {
        return Err(FunctionError::new(format!(
            "{} takes {} arguments; it was given {given}.",
            request.name,
            parameters.len(),
        )));
    }
    let each = parameters.iter().chain(variadic.iter().cycle());
    let mut arguments = Vec::with_capacity(given);
    for (index, (parameter, argument)) in each.zip(&request.arguments).enumerate() {
        let ty = (parameter.ty)().map_err(|why| FunctionError::new(why.to_string()))?;
        arguments.push(
            from_dynamic(Some(argument), &ty)
                .map_err(|why| FunctionError::argument(index, why.detail))?,
        );
    }
    let output = function
        .output()
        .map_err(|why| FunctionError::new(why.to_string()))?;
    to_dynamic(&function.call(arguments)?, &output).map_err(|why| FunctionError::new(why.detail))
}
