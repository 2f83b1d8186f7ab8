//! The video forms no set has asked hardware about, and whose answer does not follow from those it
//! has, do not load: see fixtures/ptx/README.md.

use softgpu::program::Program;

fn load(instruction: &str) -> Result<(), String> {
    let text = format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry kernel()\n{{\n\
         .reg .b32 %r<8>;\n{instruction};\nret;\n}}\n"
    );
    Program::build(&text).map(drop).map_err(|e| e.to_string())
}

#[test]
fn unmeasured_video_forms_do_not_load() {
    for (refused, word) in [
        ("vadd.u32.u32.u32 %r0, %r1.b0, %r2", "%r1.b0"),
        ("vadd2.u32.u32.u32 %r0.h0, %r1, %r2, %r3", "%r0.h0"),
        ("vadd4.u32.u32.u32 %r0, %r1.b7654, %r2, %r3", "%r1.b7654"),
        ("vshl.u32.u32.u32.sat.clamp.min %r0, %r1, %r2, %r3", "vshl"),
        ("vshr.s32.s32.u32.sat.wrap.max %r0, %r1, %r2, %r3", "vshr"),
    ] {
        let why = load(refused).expect_err(refused);
        assert!(why.contains(word), "{refused}: {why}");
    }
    for loads in [
        "vadd.u32.u32.u32 %r0, %r1, %r2",
        "vadd2.u32.u32.u32 %r0, %r1, %r2, %r3",
        "vshl.u32.u32.u32.clamp.min %r0, %r1, %r2, %r3",
    ] {
        load(loads).expect(loads);
    }
}
