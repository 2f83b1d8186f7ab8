-- The views over a lake, for every engine. lake_events, lake_runs and their like are the files; {{json COLUMN KEY}} and
-- its like are filled in for each engine.

-- Every row: one for a span or an instant.
create or replace {{temporary}} view events as
select run, host, rank, pid, tid, start_ns, start_ns + coalesce(cast(duration_ns as bigint), 0) as end_ns,
       cast(duration_ns as bigint) as duration_ns, type, layer, category, name, phase, status, result, op_id, parent, depth,
       device, context, stream, correlation, cpu, cmd, decoded, details, outputs, stack, stack_id, op, cast(size as bigint) as size,
       freed, ptr, space, direction, src, dst, kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, count, source,
       call, recording
from lake_events;

-- Calls of the CUDA runtime, the driver API and other hooked libraries.
create or replace {{temporary}} view calls as
select run, host, rank, pid, tid, start_ns, end_ns, duration_ns, layer, category, name, status, result, details, outputs,
       stack, stack_id, op_id, parent, depth, device, context, stream, recording
from events where type = 'userspace' and layer in ('runtime', 'driver', 'library');

-- Kernels as the GPU ran them.
create or replace {{temporary}} view kernels as
select run, host, rank, pid, device, context, stream, start_ns, end_ns, duration_ns, name, correlation,
       grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, details, op_id
from events where type = 'gpu' and category = 'kernel';

-- Copies and fills as the GPU ran them.
create or replace {{temporary}} view copies as
select run, host, rank, pid, device, context, stream, start_ns, end_ns, duration_ns, name,
       try_cast({{json details bytes}} as bigint) as bytes, correlation, details, op_id
from events where type = 'gpu' and category in ('transfer', 'memory');

-- Memory taken and given back.
create or replace {{temporary}} view allocs as
select run, host, rank, pid, tid, start_ns, name, op, size, freed, ptr, space, device, context, op_id
from events where type = 'memory';

-- Requests to the kernel driver.
create or replace {{temporary}} view ioctls as
select run, host, rank, pid, tid, start_ns, end_ns, duration_ns, name, cmd, decoded, status, result, op_id, parent
from events where type = 'ioctl';

-- Ranges that the program names itself (NVTX).
create or replace {{temporary}} view ranges as
select run, host, rank, pid, tid, start_ns, end_ns, duration_ns, name, layer, op_id, parent, depth
from events where type = 'range';

-- Samples of the GPU's state, ten a second.
create or replace {{temporary}} view samples as
select run, host, rank, device, start_ns as at_ns,
       try_cast({{json details gpu_percent}} as double) as gpu_percent,
       try_cast({{json details memory_used_bytes}} as bigint) as memory_used_bytes,
       try_cast({{json details power_mw}} as bigint) as power_mw,
       try_cast({{json details sm_clock_mhz}} as bigint) as sm_clock_mhz,
       try_cast({{json details temperature_c}} as bigint) as temperature_c,
       try_cast({{json details sm_clock_max_mhz}} as bigint) as sm_clock_max_mhz,
       try_cast({{json details clock_limits}} as bigint) as clock_limits,
       -- 1: slowed down by heat or by the hardware's own guard. A power limit, which a busy GPU reaches as a rule, is no fault.
       case when try_cast({{json details clock_limits}} as bigint) is null then null
            when (try_cast({{json details clock_limits}} as bigint) & 232) <> 0 then 1 else 0 end as throttled,
       case when try_cast({{json details clock_limits}} as bigint) is null then null
            when (try_cast({{json details clock_limits}} as bigint) & 4) <> 0 then 1 else 0 end as power_limited,
       try_cast({{json details ecc_corrected}} as bigint) as ecc_corrected,
       try_cast({{json details ecc_uncorrected}} as bigint) as ecc_uncorrected
from events where type = 'counter' and name = 'nvml';

-- One row a recording.
create or replace {{temporary}} view runs as select * from lake_runs;

-- How often each name occurs in a recording, and how long it took.
create or replace {{temporary}} view names as select * from lake_names;

-- Frames of stacks; level 0 is the innermost.
create or replace {{temporary}} view stacks as select * from lake_stacks;

-- Steps of training loops.
create or replace {{temporary}} view steps as select * from lake_steps;

-- What cutrace report findings says of each recording.
create or replace {{temporary}} view findings as select * from lake_findings;

-- When each GPU of each rank worked: the union of its work, a row a stretch.
create or replace {{temporary}} view busy as
with work as (
    select run, host, rank, device, start_ns, end_ns,
           max(end_ns) over (partition by run, host, rank, device order by start_ns, end_ns
                             rows between unbounded preceding and 1 preceding) as before_ns
    from events where type = 'gpu' and duration_ns is not null
), stretches as (
    select *, sum(case when before_ns is null or start_ns > before_ns then 1 else 0 end)
                over (partition by run, host, rank, device order by start_ns, end_ns
                      rows between unbounded preceding and current row) as stretch
    from work
)
select run, host, rank, device, min(start_ns) as start_ns, max(end_ns) as end_ns,
       max(end_ns) - min(start_ns) as duration_ns
from stretches group by run, host, rank, device, stretch;
