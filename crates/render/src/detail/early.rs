//! The page before the report is made: lanes, and the whole run at a glance, from the index alone.

use super::{Detail, Query};
use crate::html::{colour, lane_head::OwnerHead};
use event::{Direction, Kind, Layer, Meta, Summary};
use std::collections::BTreeMap;

/// Spans of the whole run that the page begins with.
const FIRST_SPANS: usize = 2_000;

impl Detail {
    /// What `web/early.js` begins with, as JSON.
    pub fn early(&self, meta: &Meta, summary: Option<&Summary>) -> serde_json::Result<String> {
        let query = Query {
            from: 0,
            to: self.end.saturating_add(1),
            lanes: None,
            limit: FIRST_SPANS,
        };
        let lanes: Vec<OwnerHead> = self.owners.iter().map(|&owner| owner.into()).collect();
        let totals: Vec<(u32, u32, u64)> = (self.totals().into_iter())
            .map(|((lane, depth), count)| (lane, depth, count))
            .collect();
        let head = serde_json::json!({
            "meta": meta,
            "summary": summary,
            "origin_ns": self.origin,
            "end_ns": self.end,
            "categories": colour::names(),
            "layers": Layer::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
            "directions": Direction::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
            "types": Kind::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
            "lanes": lanes,
            "totals": totals,
        });
        let mut text = serde_json::to_string(&head)?;
        text.pop();
        text.push_str(",\"spans\":");
        text.push_str(&self.answer(&query, None));
        text.push('}');
        Ok(text)
    }

    /// How many spans are on each row.
    fn totals(&self) -> BTreeMap<(u32, u32), u64> {
        let mut totals: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for row in self.segments.iter().flat_map(|segment| &segment.rows) {
            *totals.entry((row.lane, row.depth)).or_default() += u64::from(row.count);
        }
        for reaching in &self.reaching {
            let row = (reaching.span.lane, reaching.span.depth);
            *totals.entry(row).or_default() += 1;
        }
        totals
    }
}
