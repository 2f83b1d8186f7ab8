//! What is at which address, below a path that other users of the machine cannot guess.

use super::{
    board::Board,
    event, flame,
    indexed::Indexed,
    neighbour::{self, Wanted},
    search,
};
use crate::commands::http::{BadRequest, Parameters, Request, Response};
use render::detail::Query;
use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// Spans of an answer.
const MOST_SPANS: u64 = 20_000;
/// Bytes of an answer.
const LARGEST: usize = 16 << 20;

pub struct Site {
    /// Names of other hosts that lead here are another site's doing.
    pub hosts: [String; 2],
    /// `/SECRET/`
    pub path: String,
    pub board: Arc<Board>,
    /// One question after the other: what they need in memory is bounded together.
    pub turn: Mutex<()>,
}

impl Site {
    pub fn answer(&self, request: &Request) -> Response {
        if request.method != "GET" || !self.hosts.contains(&request.host) {
            return Response::not_found();
        }
        let Some(rest) = request.target.strip_prefix(&*self.path) else {
            return Response::not_found();
        };
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        let now = self.board.now();
        let ask = match name {
            "" => return Response::page(&now.page),
            "api/status" => return Response::json(self.board.status()),
            "api/report" => {
                return match &now.report {
                    Some(report) => Response::shared_json(report),
                    None => Response::error("404 Not Found", "there is no report yet"),
                };
            }
            "api/spans" => spans,
            "api/event" => one_event,
            "api/flame" => flame_graph,
            "api/search" => found,
            "api/instances" => instances,
            "api/next" => next,
            _ => return Response::not_found(),
        };
        let Some(parameters) = Parameters::parse(query) else {
            return Response::error(
                "400 Bad Request",
                "the parameters are not percent-encoded UTF-8",
            );
        };
        let number = parameters
            .number("trace")
            .map(|number| number.unwrap_or(0) as usize);
        match number.clone().map(|number| now.traces.get(number)) {
            Err(why) => Response::error("400 Bad Request", &why.to_string()),
            Ok(None) => Response::error("404 Not Found", "there is no such trace"),
            Ok(Some(trace)) if !trace.is_current() => {
                Response::error("410 Gone", "the trace has changed: run cutrace view again")
            }
            Ok(Some(trace)) => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = ask(trace, &parameters);
                if trace.has_ahead() {
                    let traces = Arc::clone(&now.traces);
                    let number = number.unwrap_or(0);
                    thread::spawn(move || traces[number].read_ahead());
                }
                match answer {
                    Ok(Some(answer)) if answer.len() <= LARGEST => Response::json(answer),
                    Ok(Some(_)) => {
                        Response::error("400 Bad Request", "the answer is too large: ask for less")
                    }
                    Ok(None) => Response::error("404 Not Found", "there is no such event"),
                    Err(why) if why.is::<BadRequest>() => {
                        Response::error("400 Bad Request", &why.to_string())
                    }
                    Err(why) => Response::error("500 Internal Server Error", &format!("{why:#}")),
                }
            }
        }
    }
}

type Answer = anyhow::Result<Option<String>>;

fn spans(trace: &Indexed, parameters: &Parameters) -> Answer {
    let lanes = parameters.get("lanes").filter(|lanes| !lanes.is_empty());
    let lanes = lanes.map(|lanes| {
        lanes
            .split(',')
            .map(str::parse::<u32>)
            .collect::<Result<Vec<u32>, _>>()
    });
    let mut lanes = lanes
        .transpose()
        .map_err(|_| BadRequest::new("lanes: not a list of numbers"))?;
    if let Some(lanes) = &mut lanes {
        lanes.sort_unstable();
    }
    let query = Query {
        from: parameters.needed("from")?,
        to: parameters.needed("to")?,
        lanes,
        limit: parameters
            .number("limit")?
            .unwrap_or(MOST_SPANS)
            .min(MOST_SPANS) as usize,
    };
    if query.from >= query.to {
        return Err(BadRequest::new("to: not behind from").into());
    }
    trace.spans(&query).map(Some)
}

fn flame_graph(trace: &Indexed, parameters: &Parameters) -> Answer {
    let (from, to) = (parameters.needed("from")?, parameters.needed("to")?);
    if from >= to {
        return Err(BadRequest::new("to: not behind from").into());
    }
    flame::flame(trace, from, to).map(Some)
}

fn one_event(trace: &Indexed, parameters: &Parameters) -> Answer {
    event::event(trace, parameters.needed("id")?)
}

fn found(trace: &Indexed, parameters: &Parameters) -> Answer {
    let text = parameters.needed_text("q")?;
    let (from, max) = page_of(parameters)?;
    let by_name = match parameters.get("in") {
        None | Some("all") => false,
        Some("names") => true,
        Some(_) => return Err(BadRequest::new("in: names or all").into()),
    };
    search::search(trace, text, by_name, from, max).map(Some)
}

fn instances(trace: &Indexed, parameters: &Parameters) -> Answer {
    let name = parameters.needed_text("name")?;
    let by_time = match parameters.get("by") {
        None | Some("time") => true,
        Some("duration") => false,
        Some(_) => return Err(BadRequest::new("by: time or duration").into()),
    };
    let (from, max) = page_of(parameters)?;
    search::instances(trace, name, by_time, from, max).map(Some)
}

fn next(trace: &Indexed, parameters: &Parameters) -> Answer {
    let wanted = Wanted {
        name: parameters.needed_text("name")?,
        start: parameters.needed("start")?,
        id: parameters.needed("id")?,
        before: match parameters.get("to") {
            None | Some("after") => false,
            Some("before") => true,
            Some(_) => return Err(BadRequest::new("to: after or before").into()),
        },
    };
    neighbour::neighbour(trace, &wanted).map(Some)
}

/// Where to go on, and how far.
fn page_of(parameters: &Parameters) -> Result<(u64, usize), BadRequest> {
    let max = parameters.number("max")?.unwrap_or(search::MOST_MATCHES);
    let max = max.clamp(1, search::MOST_MATCHES) as usize;
    Ok((parameters.number("from")?.unwrap_or(0), max))
}
