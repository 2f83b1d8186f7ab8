//! Opening an Arrow stream: its schema, with the trace's head. Damage ends the reading with a
//! warning: behind it nothing can be distinguished from noise, before it every batch is whole.

use super::{
    decode::Decoder,
    message::{Messages, Next},
    plan::Plan,
    units::Units,
};
use crate::{Error, Parts, Result, Warnings, pipeline::Inline, source::Opened};
use std::{io::Read, sync::Arc};

pub fn open(input: impl Read + Send + 'static, parts: Parts) -> Result<Opened> {
    let mut messages = Messages::new(input);
    let plan = match messages.next()?.1 {
        Next::NoMore => return Err(Error::Empty),
        Next::End | Next::CutOff => {
            return Err(Error::NotATrace(
                "an Arrow stream that ends before it begins".into(),
            ));
        }
        Next::Damaged(what) => return Err(Error::NotATrace(format!("byte 0: {what}").into())),
        Next::Message => {
            let message = arrow_ipc::root_as_message(messages.header());
            let schema = message.ok().and_then(|message| message.header_as_schema());
            Plan::new(schema.ok_or_else(|| {
                Error::NotATrace("an Arrow stream that does not begin with a schema".into())
            })?)?
        }
    };
    let mut warnings = Warnings::default();
    if plan.no_meta {
        warnings.add(None, "no head in the schema's metadata: times count from 0");
    }
    let plan = Arc::new(plan);
    Ok(Opened {
        meta: plan.meta.clone(),
        warnings,
        lines: 0,
        batches: Box::new(Inline::new(
            Units::new(messages, Arc::clone(&plan)),
            Decoder::new(plan, parts),
            true,
        )),
    })
}
