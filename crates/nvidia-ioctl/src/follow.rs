//! Follows calls that have returned: learns handles, and says what the calls did.

use super::call::{
    IoctlCall, RM_ALLOC, RM_ALLOC_MEMORY, RM_ALLOC_OBJECT, RM_CONTROL, RM_DUP_OBJECT, RM_FREE,
    RM_MAP_MEMORY, RM_VID_HEAP_CONTROL, Request,
};
use super::class::ObjectKind;
use super::decode::{Decoded, client, object, status};
use super::facts::Fact;
use super::fields::uuid;
use super::handles::{Handles, Object};
use super::status::NvStatus;

impl Handles {
    /// Decodes a call that has returned and learns from it. Facts are of calls that succeeded.
    pub fn returned(&mut self, call: &IoctlCall<'_>) -> (Decoded, Vec<Fact>) {
        let request = Request::new(call);
        // What is freed has its name only before, what is made only after.
        let early = request.is(RM_FREE).then(|| self.describe(&request));
        let succeeded = status(&request).is_none_or(NvStatus::is_ok) && request.after.is_some();
        let facts = if !succeeded {
            Vec::new()
        } else if request.file.is_frontend() {
            self.frontend(&request)
        } else {
            uvm(&request).into_iter().collect()
        };
        let decoded = early.unwrap_or_else(|| self.describe(&request));
        (decoded, facts)
    }

    fn frontend(&mut self, request: &Request<'_>) -> Vec<Fact> {
        let fact = match request.number() {
            RM_ALLOC | RM_ALLOC_OBJECT | RM_ALLOC_MEMORY => self.allocated(request),
            RM_FREE => return self.object_freed(request),
            RM_DUP_OBJECT => self.duplicated(request),
            RM_VID_HEAP_CONTROL => self.heap(request),
            RM_CONTROL => control(request),
            RM_MAP_MEMORY => self.mapped(request),
            _ => None,
        };
        fact.into_iter().collect()
    }

    fn allocated(&mut self, request: &Request<'_>) -> Option<Fact> {
        let class = request.class()?;
        let handle = object(request)?;
        let parent = request.first_word(&["hObjectParent", "params.hObjectParent"])?;
        let root = request.first_word(&["hRoot", "params.hRoot"])?;
        let parameter = |path| request.parameters.and_then(|found| found.number(path));
        let mut made = Object::new(class, parent, None, request.version);
        let client = if made.kind == ObjectKind::Client {
            handle
        } else {
            root
        };
        // RM_ALLOC_MEMORY says its size in the struct: the last byte's number.
        let limit = request
            .field("params.limit")
            .and_then(|limit| limit.checked_add(1));
        let is_memory = matches!(
            made.kind,
            ObjectKind::DeviceMemory | ObjectKind::HostMemory | ObjectKind::RegisteredMemory
        );
        if is_memory {
            made.bytes = limit
                .or_else(|| parameter("size"))
                .or_else(|| parameter("limit")?.checked_add(1));
        }
        self.made(client, handle, made);
        match made.kind {
            ObjectKind::Channel => Some(Fact::ChannelCreated {
                client,
                channel: handle,
                group: parent,
                class: made.class_name.unwrap_or("?"),
                entries: parameter("gpFifoEntries").unwrap_or(0),
                engine: parameter("engineType").unwrap_or(0),
            }),
            ObjectKind::ChannelGroup => Some(Fact::GroupCreated {
                client,
                group: handle,
                engine: parameter("engineType").unwrap_or(0),
            }),
            ObjectKind::AddressSpace => Some(Fact::AddressSpaceCreated {
                client,
                space: handle,
            }),
            kind if is_memory => Some(Fact::MemoryAllocated {
                client,
                object: handle,
                kind,
                requested: (request.parameters)
                    .and_then(|found| found.structure?.number(found.before, "size"))
                    .or(made.bytes)?,
                bytes: made.bytes?,
                address: (kind == ObjectKind::RegisteredMemory)
                    .then(|| request.field("params.pMemory"))
                    .flatten(),
            }),
            _ => None,
        }
    }

    fn object_freed(&mut self, request: &Request<'_>) -> Vec<Fact> {
        let (Some(client), Some(handle)) = (client(request), object(request)) else {
            return Vec::new();
        };
        // Freeing a client, a device or a TSG frees what is below.
        let below = self.below(client, handle);
        self.freed(client, handle);
        let gone = |(object, known): (u32, Object)| match known.kind {
            ObjectKind::Channel | ObjectKind::ChannelGroup => Some(Fact::Destroyed {
                client,
                object,
                kind: known.kind,
            }),
            ObjectKind::DeviceMemory | ObjectKind::HostMemory | ObjectKind::RegisteredMemory => {
                Some(Fact::MemoryFreed {
                    client,
                    object,
                    kind: known.kind,
                    bytes: known.bytes?,
                })
            }
            _ => None,
        };
        below.into_iter().filter_map(gone).collect()
    }

    fn duplicated(&mut self, request: &Request<'_>) -> Option<Fact> {
        let source = self.get(request.word("hClientSrc")?, request.word("hObjectSrc")?)?;
        // The memory is there once: a duplicate neither adds nor, when it goes, frees any.
        let copy = Object::new(
            source.class,
            request.word("hParent")?,
            None,
            request.version,
        );
        self.made(request.word("hClient")?, request.word("hObject")?, copy);
        None
    }

    /// The older way to allocate memory.
    fn heap(&mut self, request: &Request<'_>) -> Option<Fact> {
        const LOCATION: u64 = 3 << 25;
        let client = request.word("hRoot")?;
        let (class, arm) = match request.word("function")? {
            2 if request.field("data.AllocSize.attr")? & LOCATION == 0 => (0x40, "AllocSize"),
            2 => (0x3e, "AllocSize"),
            27 => (0x71, "AllocOsDesc"),
            3 => {
                let handle = request.word("data.Free.hMemory")?;
                let known = self.freed(client, handle)?;
                return Some(Fact::MemoryFreed {
                    client,
                    object: handle,
                    kind: known.kind,
                    bytes: known.bytes?,
                });
            }
            _ => return None,
        };
        let field = |name: &str| request.field(&format!("data.{arm}.{name}"));
        let handle = u32::try_from(field("hMemory")?).ok()?;
        let bytes = field("size").or_else(|| field("limit")?.checked_add(1))?;
        let parent = request.word("hObjectParent")?;
        let made = Object::new(class, parent, Some(bytes), request.version);
        self.made(client, handle, made);
        Some(Fact::MemoryAllocated {
            client,
            object: handle,
            kind: made.kind,
            requested: (request.structure)
                .and_then(|made| made.number(request.before, &format!("data.{arm}.size")))
                .unwrap_or(bytes),
            bytes,
            address: field("descriptor"),
        })
    }

    fn mapped(&self, request: &Request<'_>) -> Option<Fact> {
        let client = request.word("params.hClient")?;
        let object = request.word("params.hMemory")?;
        let kind = self.get(client, object)?.kind;
        (kind == ObjectKind::Doorbell).then_some(Fact::DoorbellMapped {
            client,
            object,
            address: request.field("params.pLinearAddress")?,
        })
    }
}

fn control(request: &Request<'_>) -> Option<Fact> {
    let (id, _) = request.control()?;
    let parameters = request.parameters?;
    let number = |path| parameters.number(path);
    let (client, object) = (client(request)?, object(request)?);
    Some(match id {
        0xa06c_0103 => Fact::TimesliceSet {
            client,
            group: object,
            microseconds: number("timesliceUs")?,
        },
        0xa06c_0107 => Fact::InterleaveSet {
            client,
            group: object,
            level: number("tsgInterleaveLevel")?,
        },
        0x2080_1210 => Fact::PreemptionSet {
            client,
            object: u32::try_from(number("hChannel")?).ok()?,
            graphics: number("gfxpPreemptMode")?,
            compute: number("cilpPreemptMode")?,
        },
        0xa06c_0101 | 0xa06f_0103 => Fact::Scheduled {
            client,
            object,
            enabled: number("bEnable")? != 0,
        },
        0xc36f_0108 => Fact::TokenGiven {
            client,
            channel: object,
            token: number("workSubmitToken")?,
        },
        _ => return None,
    })
}

fn uvm(request: &Request<'_>) -> Option<Fact> {
    let name = request.named?.name;
    let range = |base| Some((request.field(base)?, request.field("length")?));
    let processor = |path| {
        let (offset, _) = request.structure?.field(path)?;
        uuid(request.before.get(offset..offset.checked_add(16)?)?)
    };
    Some(match name {
        "UVM_CREATE_EXTERNAL_RANGE"
        | "UVM_ALLOC_SEMAPHORE_POOL"
        | "UVM_MAP_DYNAMIC_PARALLELISM_REGION" => {
            let (address, bytes) = range("base")?;
            Fact::RangeCreated { address, bytes }
        }
        "UVM_MAP_EXTERNAL_ALLOCATION" => {
            let (address, bytes) = range("base")?;
            Fact::RangeMapped {
                address,
                bytes,
                client: request.word("hClient")?,
                memory: request.word("hMemory")?,
            }
        }
        "UVM_FREE" => Fact::RangeFreed {
            address: request.field("base")?,
            bytes: request.field("length"),
        },
        "UVM_MIGRATE" => {
            let (address, bytes) = range("base")?;
            let to = processor("destinationUuid")?;
            Fact::Migrated { address, bytes, to }
        }
        _ => {
            let (advice, place) = match name {
                "UVM_SET_PREFERRED_LOCATION" => ("preferred location", Some("preferredLocation")),
                "UVM_UNSET_PREFERRED_LOCATION" => ("no preferred location", None),
                "UVM_ENABLE_READ_DUPLICATION" => ("read mostly", None),
                "UVM_DISABLE_READ_DUPLICATION" => ("not read mostly", None),
                "UVM_SET_ACCESSED_BY" => ("accessed by", Some("accessedByUuid")),
                "UVM_UNSET_ACCESSED_BY" => ("not accessed by", Some("accessedByUuid")),
                _ => return None,
            };
            let (address, bytes) = range("requestedBase")?;
            Fact::Advised {
                advice,
                address,
                bytes,
                processor: place.and_then(processor),
            }
        }
    })
}
