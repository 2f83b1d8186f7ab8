//! From TOML to hooks. Every mistake is reported with its place; anything unknown is a mistake.

use super::{
    Aggregate, Argument, Condition, CopiedAt, Error, Hook, Hooks, Located, MOST_ARGUMENTS,
    MOST_BYTES, MOST_HOOKS, Measure, Probe, ProbeKind, Target, ValueOrigin,
};
use event::{Category, Kind, Layer};
use std::ops::Range;
use toml_edit::{Document, Item, TableLike, Value};

const KEYS: [&str; 14] = [
    "name",
    "group",
    "probe",
    "type",
    "layer",
    "category",
    "time",
    "stack",
    "required",
    "process",
    "args",
    "when",
    "aggregate",
    "note",
];

pub fn parse(text: &str) -> Result<Hooks, Error> {
    if text.len() > MOST_BYTES {
        return Err(Error::at(text, 0, "larger than 4 MiB"));
    }
    let document = Document::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        Error::at(text, place, error.message().trim())
    })?;
    let mut hooks = Vec::new();
    for (key, item) in document.as_table().iter() {
        let place = start(
            (document.as_table().key(key))
                .and_then(|k| k.span())
                .or(item.span()),
        );
        if key != "hook" {
            let what = format!("unknown key '{key}': a hooks file contains [[hook]] tables");
            return Err(Error::at(text, place, what));
        }
        let Item::ArrayOfTables(tables) = item else {
            return Err(Error::at(text, place, "write [[hook]], with two brackets"));
        };
        if tables.len() > MOST_HOOKS {
            return Err(Error::at(
                text,
                place,
                format!("more than {MOST_HOOKS} hooks"),
            ));
        }
        for table in tables.iter() {
            let reading = Reading {
                text,
                table,
                place: start(table.span()),
            };
            hooks.push(reading.hook()?);
        }
    }
    Ok(Hooks { hooks })
}

/// Whether probes of these kinds have such an argument.
fn fits(argument: &Argument, probes: &[Probe]) -> Result<(), Located> {
    let points = |probe: &Probe| matches!(probe.target, Target::Tracepoint { .. });
    match &argument.source {
        ValueOrigin::Field(field) if !probes.iter().all(points) => {
            let what = format!(
                "'{field}' is not a function argument (arg0 … arg11, retval); only tracepoints have named fields"
            );
            Err(Located::new(0, what))
        }
        ValueOrigin::Argument(_) | ValueOrigin::Returned if probes.iter().any(points) => Err(
            Located::new(0, "a tracepoint has no argN: use a field name"),
        ),
        _ => Ok(()),
    }
}

fn start(span: Option<Range<usize>>) -> usize {
    span.map_or(0, |span| span.start)
}

/// A text, and where it is.
type Text<'a> = (&'a str, Option<Range<usize>>);

struct Reading<'a> {
    text: &'a str,
    table: &'a dyn TableLike,
    place: usize,
}

impl<'a> Reading<'a> {
    fn hook(&self) -> Result<Hook, Error> {
        for (key, item) in self.table.iter() {
            if !KEYS.contains(&key) {
                let place = self.key_place(key, item);
                let what = format!("unknown key '{key}'; a hook has {}", KEYS.join(", "));
                return Err(Error::at(self.text, place, what));
            }
        }
        let probes = self.probes()?;
        let mut arguments = self.arguments(&probes)?;
        let shown = arguments.len();
        let condition = match self.string("when")? {
            Some((value, span)) => Some(
                Condition::parse(value, &mut arguments)
                    .map_err(|error| error.within(self.text, span, value))?,
            ),
            None => None,
        };
        let aggregate = match self.string("aggregate")? {
            Some((value, span)) => {
                let known = arguments.len();
                let parsed = Aggregate::parse(value, &mut arguments)
                    .and_then(|aggregate| {
                        let added = arguments.get(known);
                        added.map_or(Ok(()), |it| fits(it, &probes))?;
                        Ok(aggregate)
                    })
                    .map_err(|error| error.within(self.text, span, value))?;
                Some(parsed)
            }
            None => None,
        };
        if arguments.len() > MOST_ARGUMENTS {
            let key = if shown > MOST_ARGUMENTS {
                "args"
            } else {
                "when"
            };
            let what = format!("{} arguments: at most {MOST_ARGUMENTS}", arguments.len());
            return Err(self.wrong(key, what));
        }
        let at_return = probes.iter().all(|probe| probe.way.is_return());
        let returns = (aggregate.as_ref()).is_some_and(|it| it.needs_return(&arguments));
        let time = self.flag("time")? || (returns && !at_return);
        let hook = Hook {
            name: self.string("name")?.map(|(value, _)| value.to_owned()),
            group: self.string("group")?.map(|(value, _)| value.to_owned()),
            kind: self.kind()?,
            layer: self.word("layer", Layer::ALL, Layer::as_str)?,
            category: self
                .word("category", Category::ALL, Category::as_str)?
                .unwrap_or(Category::Other),
            time,
            stack: self.flag("stack")?,
            required: self.flag("required")?,
            everywhere: self.process()?,
            arguments,
            condition,
            aggregate,
            line: Error::at(self.text, self.place, "").line,
            probes,
        };
        self.string("note")?;
        self.consistent(&hook)?;
        Ok(hook)
    }

    /// What is wrong with parts that are right by themselves.
    fn consistent(&self, hook: &Hook) -> Result<(), Error> {
        self.consistent_aggregate(hook)?;
        let at_return = hook.time || hook.probes.iter().all(|probe| probe.way.is_return());
        let only_return = hook.probes.iter().all(|probe| probe.way.is_return());
        if !only_return && hook.probes.iter().any(|probe| probe.way.is_return()) {
            let what =
                "a hook cannot mix return probes with others, because they read different values";
            return Err(self.wrong("probe", what));
        }
        let early =
            (hook.arguments.iter()).find(|argument| argument.source != ValueOrigin::Returned);
        if let Some(argument) = early
            && only_return
        {
            let what = format!(
                "{}: arguments are not available at the return; use retval, or an entry probe with time = true",
                argument.name
            );
            return Err(self.wrong(if argument.hidden { "when" } else { "args" }, what));
        }
        let late = (hook.arguments.iter()).find(|argument| argument.place == CopiedAt::Return);
        if let Some(argument) = late
            && !at_return
        {
            let what = format!(
                "{} is known only when the function returns: add time = true",
                argument.name
            );
            return Err(self.wrong(if argument.hidden { "when" } else { "args" }, what));
        }
        if let Some(condition) = &hook.condition
            && condition.needs_return(&hook.arguments)
            && !only_return
        {
            let what = "this condition needs the return value, so it works only with return probes (kretprobe, fexit, \
                        uretprobe)";
            return Err(self.wrong("when", what));
        }
        let points = (hook.probes.iter())
            .filter(|p| matches!(p.way, ProbeKind::Tracepoint | ProbeKind::Usdt));
        if hook.time && points.count() > 0 {
            return Err(self.wrong("time", "tracepoints and markers have no return"));
        }
        let calls =
            (hook.probes.iter()).any(|p| matches!(p.way, ProbeKind::Uprobe | ProbeKind::Uretprobe));
        if hook.everywhere && calls {
            let what = "library functions are recorded only in traced processes: drop this key, and use -a to record \
                        all processes";
            return Err(self.wrong("process", what));
        }
        Ok(())
    }

    fn consistent_aggregate(&self, hook: &Hook) -> Result<(), Error> {
        let Some(aggregate) = &hook.aggregate else {
            return Ok(());
        };
        if hook.stack {
            let what = "aggregate records no calls, so there is no stack: drop one of them";
            return Err(self.wrong("stack", what));
        }
        if !aggregate.needs_return(&hook.arguments) {
            return Ok(());
        }
        let moment = |probe: &Probe| matches!(probe.way, ProbeKind::Tracepoint | ProbeKind::Usdt);
        if hook.probes.iter().any(moment) {
            let what = "tracepoints and markers have no return and no duration";
            return Err(self.wrong("aggregate", what));
        }
        let is_duration = *aggregate == Aggregate::Histogram(Measure::Duration);
        if is_duration && hook.probes.iter().any(|probe| probe.way.is_return()) {
            let what = "a duration needs an entry probe: write kprobe:, fentry: or uprobe:";
            return Err(self.wrong("aggregate", what));
        }
        Ok(())
    }

    fn probes(&self) -> Result<Vec<Probe>, Error> {
        let Some(item) = self.table.get("probe") else {
            return Err(Error::at(
                self.text,
                self.place,
                "a hook needs a probe: probe = \"kprobe:nvidia:nvidia_isr\"",
            ));
        };
        let values: Vec<&Value> = match item.as_value() {
            Some(Value::Array(list)) => list.iter().collect(),
            Some(value) => vec![value],
            None => return Err(self.wrong("probe", "expected a string or a list of strings")),
        };
        if values.is_empty() || values.len() > 64 {
            return Err(self.wrong("probe", "expected 1 to 64 probes"));
        }
        let mut probes = Vec::new();
        for value in values {
            let Some(written) = value.as_str() else {
                let what = "expected a string or a list of strings";
                return Err(Error::at(self.text, start(value.span()), what));
            };
            let probe = Probe::parse(written)
                .map_err(|error| error.within(self.text, value.span(), written))?;
            probes.push(probe);
        }
        Ok(probes)
    }

    fn arguments(&self, probes: &[Probe]) -> Result<Vec<Argument>, Error> {
        let Some(item) = self.table.get("args") else {
            return Ok(Vec::new());
        };
        let Some(table) = item.as_table_like() else {
            return Err(self.wrong("args", "expected a table: { size = \"arg1:u64\" }"));
        };
        let mut arguments = Vec::new();
        for (name, item) in table.iter() {
            let Some(written) = item.as_str() else {
                let what = "expected a string: \"arg1:u64\"";
                return Err(Error::at(self.text, start(item.span()), what));
            };
            let argument = Argument::parse(name, written)
                .and_then(|argument| fits(&argument, probes).map(|()| argument))
                .map_err(|error| error.within(self.text, item.span(), written))?;
            arguments.push(argument);
        }
        Ok(arguments)
    }

    fn process(&self) -> Result<bool, Error> {
        match self.string("process")?.map(|(value, _)| value) {
            None | Some("traced") => Ok(false),
            Some("any") => Ok(true),
            Some(_) => Err(self.wrong("process", "expected \"traced\" or \"any\"")),
        }
    }

    /// A text, and where it is.
    fn string(&self, key: &str) -> Result<Option<Text<'a>>, Error> {
        match self.table.get(key) {
            None => Ok(None),
            Some(item) => match item.as_str() {
                Some(value) => Ok(Some((value, item.span()))),
                None => Err(self.wrong(key, "expected a string")),
            },
        }
    }

    fn kind(&self) -> Result<Option<Kind>, Error> {
        match self.string("type")? {
            // Its name before 0.2.
            Some(("kernel", _)) => Ok(Some(Kind::KernelFunction)),
            _ => self.word("type", Kind::ALL, Kind::as_str),
        }
    }

    fn word<T: Copy>(
        &self,
        key: &str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>, Error> {
        let Some((value, _)) = self.string(key)? else {
            return Ok(None);
        };
        match all.iter().find(|word| name(**word) == value) {
            Some(word) => Ok(Some(*word)),
            None => {
                let names: Vec<&str> = all.iter().map(|word| name(*word)).collect();
                let what = format!("unknown {key} '{value}' (choose from {})", names.join(", "));
                Err(self.wrong(key, what))
            }
        }
    }

    fn flag(&self, key: &str) -> Result<bool, Error> {
        match self.table.get(key) {
            None => Ok(false),
            Some(item) => item
                .as_bool()
                .ok_or_else(|| self.wrong(key, "expected true or false")),
        }
    }

    fn key_place(&self, key: &str, item: &Item) -> usize {
        start(
            (self.table.key(key))
                .and_then(|key| key.span())
                .or(item.span()),
        )
    }

    /// An error at a key's value.
    fn wrong(&self, key: &str, what: impl Into<String>) -> Error {
        let span = self.table.get(key).and_then(Item::span);
        Error::at(self.text, span.map_or(self.place, |span| span.start), what)
    }
}
