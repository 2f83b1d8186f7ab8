//! The signatures of functions, found once each.

use super::Assembler;
use crate::Sink;
use crate::call::origin::{Named, Origin};
use crate::call::signature::Signature;
use std::sync::Arc;

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub(super) fn signature(&mut self, ring: usize, function: u32) -> Arc<Signature> {
        let Some(image) = self.rings[ring].image else {
            return Arc::new(unknown(function));
        };
        let known = self
            .signatures
            .get(image)
            .and_then(|image| image.get(function as usize));
        if let Some(Some(known)) = known {
            return known.clone();
        }
        let mut named = self.origin.function(image, function);
        if named.is_none() && !std::mem::replace(&mut self.refreshed, true) {
            self.origin.refresh();
            named = self.origin.function(image, function);
        }
        let Some(named) = named else {
            return Arc::new(unknown(function));
        };
        let key = (named.name.clone(), named.library.clone());
        let made = || {
            let major = named.library.as_deref().and_then(cuda::runtime_version);
            let plan = self.origin.plan(&named.name, major);
            let mut signature = Signature::new(&named, &plan);
            let filter = self.limits.filter.as_ref();
            let asked = (signature.nvtx).map_or(&*named.name, |function| function.family());
            signature.hidden = filter.is_some_and(|filter| !filter.wants(asked));
            Arc::new(signature)
        };
        let signature = self.by_name.entry(key).or_insert_with(made).clone();
        if self.signatures.len() <= image {
            self.signatures.resize_with(image + 1, Vec::new);
        }
        let of_image = &mut self.signatures[image];
        let place = function as usize;
        if of_image.len() <= place {
            of_image.resize(place + 1, None);
        }
        of_image[place] = Some(signature.clone());
        signature
    }
}

fn unknown(function: u32) -> Signature {
    let named = Named {
        name: format!("function {function}").into(),
        library: None,
    };
    Signature::new(&named, &cuda::capture::plan(&named.name, None))
}
