//! Forms without a recorded answer do not load, with a message that says which: see
//! fixtures/ptx/README.md. Here a few by example; that there are no others is tested elsewhere.

use softgpu_machine::program::Program;

fn load(instruction: &str) -> Result<(), String> {
    let text = format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry kernel()\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %d<8>;\n{instruction};\nret;\n}}\n"
    );
    Program::build(&text).map(drop).map_err(|e| e.to_string())
}

#[test]
fn forms_without_an_answer_do_not_load() {
    for (refused, word) in [
        ("vadd.u32.u32.u32 %r0, %r1.b0, %r2", "%r1.b0"),
        ("vadd2.u32.u32.u32 %r0.h0, %r1, %r2, %r3", "%r0.h0"),
        ("vadd4.u32.u32.u32 %r0, %r1.b7654, %r2, %r3", "%r1.b7654"),
        ("vshl.u32.u32.u32.sat.clamp.min %r0, %r1, %r2, %r3", "vshl"),
        ("vshr.s32.s32.u32.sat.wrap.max %r0, %r1, %r2, %r3", "vshr"),
        ("vmad.u32.u32.u32.shr7.shr15 %r0, %r1, %r2, %r3", "shr"),
        ("add.rn.f32x2 %d0, %d1, %d2", "sm_100"),
        ("cvt.rn.satfinite.tf32.f32 %r0, %r1", "sm_100"),
        ("redux.sync.min.f32 %r0, %r1, -1", "sm_100a"),
        ("ld.global.v4.b64 {%d0, %d1, %d2, %d3}, [%d4]", "sm_100"),
        ("atom.global.add.f16x2 %r0, [%d4], %r1", "atom"),
        ("red.global.exch.b32 [%d4], %r1", "red"),
    ] {
        let why = load(refused).expect_err(refused);
        assert!(why.contains(word), "{refused}: {why}");
    }
    for loads in [
        "vadd.u32.u32.u32 %r0, %r1, %r2",
        "vadd2.u32.u32.u32 %r0, %r1, %r2, %r3",
        "vshl.u32.u32.u32.clamp.min %r0, %r1, %r2, %r3",
        "cvt.rna.satfinite.tf32.f32 %r0, %r1",
        "atom.global.add.noftz.f16x2 %r0, [%d4], %r1",
    ] {
        load(loads).expect(loads);
    }
}
