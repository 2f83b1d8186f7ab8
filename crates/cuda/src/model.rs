//! What a table row is: functions, their parameters, types, enums and struct layouts.

/// A function of the driver or runtime API, under the name it is exported with (but for the
/// per-thread suffixes, which do not change the signature).
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    pub returns: &'static Type,
    pub parameters: &'static [Parameter],
}

#[derive(Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: &'static Type,
    pub direction: Direction,
    pub extent: Extent,
}

/// Which way the data behind a parameter flows. Values passed in registers are always `In`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    /// Worth reading only after the call returned success.
    Out,
    InOut,
}

/// How much a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One value of the pointed-to type (for values that are no pointers: themselves).
    One,
    /// An array; the parameter with this index holds its length, or points to it.
    Counted(u8),
    /// Characters up to a NUL.
    Text,
    /// Unknown: the address is all that may be shown.
    Opaque,
}

/// A C type as parameters, results and struct fields use it.
pub struct Type {
    /// C text, without `struct` and `enum`: `const CUlaunchConfig*`.
    pub text: &'static str,
    pub kind: Kind,
    /// Bytes; 0 for void.
    pub size: u32,
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Void,
    Signed,
    Unsigned,
    Float,
    Enum,
    /// The name of an object: a pointer to what only CUDA knows, or a number standing for it.
    Handle,
    /// An address on the device.
    DevicePointer,
    Pointer,
    /// `const char*`
    Text,
    Callback,
    /// A struct or union by value.
    Struct,
}

/// What a type refers to.
#[derive(Clone, Copy)]
pub enum Target {
    None,
    Type(&'static Type),
    Enum(&'static Enum),
    Struct(&'static Struct),
}

#[derive(Debug)]
pub struct Enum {
    pub name: &'static str,
    /// The values are OR-ed.
    pub bits: bool,
    /// By value; of two names for one value the first declared comes first.
    pub members: &'static [Member],
}

#[derive(Debug)]
pub struct Member {
    pub name: &'static str,
    /// As the 32 bits the program passes: negative values are in two's complement.
    pub value: u32,
}

#[derive(Debug)]
pub struct Struct {
    pub name: &'static str,
    pub size: u32,
    pub fields: &'static [Field],
}

#[derive(Debug)]
pub struct Field {
    /// Dotted where it goes through unnamed structs and unions: `res.pitch2D.devPtr`.
    pub name: &'static str,
    /// The element's type, for arrays.
    pub kind: &'static Type,
    pub offset: u32,
    pub count: u32,
    /// Inside a union: which arm is used depends on other fields.
    pub shared: bool,
}

impl Enum {
    /// The name of a value, if it has one.
    pub fn name_of(&self, value: u32) -> Option<&'static str> {
        let at = self.members.partition_point(|member| member.value < value);
        let member = self.members.get(at)?;
        (member.value == value).then_some(member.name)
    }

    /// The value of a name.
    pub fn value_of(&self, name: &str) -> Option<u32> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .map(|member| member.value)
    }
}

impl Field {
    /// There for its size only.
    pub fn is_filler(&self) -> bool {
        let last = self.name.rsplit('.').next().unwrap_or(self.name);
        last.contains("reserved") || matches!(last, "pad" | "_internal_padding" | "_oversize")
    }
}

impl Struct {
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Type {
    /// What a pointer points to.
    pub fn pointee(&self) -> Option<&'static Type> {
        match self.target {
            Target::Type(inner) => Some(inner),
            _ => None,
        }
    }

    pub fn enumeration(&self) -> Option<&'static Enum> {
        match self.target {
            Target::Enum(inner) => Some(inner),
            _ => None,
        }
    }

    pub fn structure(&self) -> Option<&'static Struct> {
        match self.target {
            Target::Struct(inner) => Some(inner),
            _ => None,
        }
    }
}

// Types refer to structs and structs to types, in circles: show the name, not the graph.
impl core::fmt::Debug for Type {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{} ({:?}, {} bytes)", self.text, self.kind, self.size)
    }
}
