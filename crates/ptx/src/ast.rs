//! The shape of a PTX module after parsing.
//!
//! Instructions stay generic (opcode, modifiers, operands): the parser knows PTX's syntax, not its
//! instruction set, so that newer instructions pass through and their consumers decide.

/// Where in the source something stood: 1-based line.
pub type Line = u32;

#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// `.version 8.7` is (8, 7).
    pub version: (u32, u32),
    /// `.target sm_90a, debug` is ["sm_90a", "debug"].
    pub target: Vec<String>,
    /// 32 or 64.
    pub address_size: u32,
    /// Module-scope variables, in order.
    pub variables: Vec<Variable>,
    /// Functions and entries, in order, declarations without body included.
    pub functions: Vec<Function>,
    /// `.alias a, b`.
    pub aliases: Vec<(String, String)>,
    /// `.file` table: (index, name).
    pub files: Vec<(u32, String)>,
    /// Module-scope `.pragma` and directives not known to the parser.
    pub directives: Vec<Directive>,
    /// Debug sections, unread: `.section .debug_info { … }`.
    pub sections: Vec<Section>,
}

/// A `.section`: the text between its braces, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub line: Line,
    /// With its dot: ".debug_info".
    pub name: String,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Linkage {
    pub external: bool,
    pub visible: bool,
    pub weak: bool,
    pub common: bool,
}

/// State space of a variable or parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    Reg,
    Sreg,
    Const,
    Global,
    Local,
    Param,
    Shared,
    Tex,
}

/// A fundamental type, as written after the dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    TF32,
    F32,
    F64,
    U16x2,
    S16x2,
    F32x2,
    E4M3,
    E5M2,
    E4M3x2,
    E5M2x2,
    Pred,
    TexRef,
    SamplerRef,
    SurfRef,
}

/// `.global .align 16 .v4 .f32 name[4][2] = {…};`, also `.reg .b32 %r<10>;` and parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    pub line: Line,
    pub linkage: Linkage,
    pub space: Space,
    /// `.align N`, if written.
    pub align: Option<u32>,
    /// 1, 2, 4 or 8: `.v2`, `.v4`.
    pub vector: u8,
    pub ty: Type,
    pub name: String,
    /// `%r<10>` declares %r0 … %r9.
    pub range: Option<u32>,
    /// Array dimensions; an unsized first dimension (`[]`) is 0.
    pub dims: Vec<u64>,
    pub init: Option<Initializer>,
    /// `.ptr` attribute of a kernel parameter: (space, alignment).
    pub pointer: Option<(Option<Space>, Option<u32>)>,
    /// `.attribute(.managed)`.
    pub managed: bool,
}

/// An initializer, as written; values are raw bits of the variable's type once converted.
#[derive(Debug, Clone, PartialEq)]
pub enum Initializer {
    List(Vec<Initializer>),
    /// Integer constant expression, already evaluated (two's complement).
    Int(i64),
    /// `0d…` or a decimal float.
    Float(f64),
    /// `0f3F800000` exact bits.
    Float32(u32),
    /// `name`, `name+8`, `generic(name)+8`; mask is Some(0xFF << n) for `0xFF(name)` forms.
    Address {
        symbol: String,
        addend: i64,
        generic: bool,
        mask: Option<u64>,
    },
    /// `addr_mode_0 = wrap` in the list of a `.samplerref` or `.texref`.
    Field {
        name: String,
        value: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    Entry,
    Func,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub line: Line,
    pub linkage: Linkage,
    pub kind: FunctionKind,
    pub name: String,
    pub returns: Vec<Variable>,
    pub params: Vec<Variable>,
    /// `.maxntid 256, 1, 1`, `.reqntid`, `.minnctapersm`, `.noreturn`, `.pragma "nounroll"` …
    pub directives: Vec<Directive>,
    /// None for a declaration.
    pub body: Option<Vec<Statement>>,
}

/// A directive with its arguments as text: name without the dot.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    pub line: Line,
    pub name: String,
    pub args: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    Label(Line, String),
    Variable(Variable),
    Instruction(Instruction),
    /// `{ … }`: names declared inside are visible inside only.
    Block(Vec<Statement>),
    /// `.loc`, `.pragma` …
    Directive(Directive),
    /// `label: .branchtargets a, b;` and `label: .calltargets f, g;`
    Targets {
        line: Line,
        label: String,
        names: Vec<String>,
        /// `.calltargets`, not `.branchtargets`.
        calls: bool,
    },
    /// `label: .callprototype (…) _ (…);`
    Prototype {
        line: Line,
        label: String,
        returns: Vec<Variable>,
        params: Vec<Variable>,
        noreturn: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    pub line: Line,
    /// `@%p1` or `@!%p1`.
    pub guard: Option<Guard>,
    /// The first word: "ld" in `ld.global.nc.v2.f32`.
    pub opcode: String,
    /// The rest, without dots: ["global", "nc", "v2", "f32"]. `::` forms stay whole: "shared::cta".
    pub modifiers: Vec<String>,
    pub operands: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    pub negated: bool,
    pub register: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register, special register (`%tid.x`, with its member), label, variable or function.
    Name(String),
    /// An integer literal; `U` suffix or not, evaluated, two's complement.
    Int(i64),
    /// `0fXXXXXXXX`.
    Float32(u32),
    /// `0dXXXXXXXXXXXXXXXX` or a decimal float, as f64 bits.
    Float64(u64),
    /// `!%p`.
    Not(String),
    /// `-%r` (only where PTX allows it).
    Neg(Box<Operand>),
    /// `_`.
    Sink,
    /// `{a, b, c, d}`.
    Vector(Vec<Operand>),
    /// `(a, b)`: return values and arguments of a call.
    List(Vec<Operand>),
    /// `a|b`: the two destinations of setp, shfl, match.
    Pair(Box<Operand>, Box<Operand>),
    /// `[base]`, `[base+8]`, `[16]` (base Int), `[name[4]]`; the offset is in bytes.
    Address { base: Box<Operand>, offset: i64 },
    /// `name+8`, `name[2]` outside brackets (mov of an address); the offset is in bytes.
    Offset { base: String, offset: i64 },
    /// `[tex, {x, y}]` and longer forms: kept as the list inside the brackets.
    Bracket(Vec<Operand>),
}
