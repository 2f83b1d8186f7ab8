-- The views over a lake, for every engine. {{events}} and {{runs}} are the files; {{json COLUMN KEY}} and the like are
-- filled in for each engine.

-- Every row: one for a span or an instant.
create or replace {{temporary}} view events as
select *, start_ns + coalesce(duration_ns, 0) as end_ns from {{events}};

-- Calls of the CUDA runtime, the driver API and other hooked libraries.
create or replace {{temporary}} view calls as
select run, host, rank, pid, tid, start_ns, end_ns, duration_ns, layer, category, name, status, result, details, outputs,
       stack, op_id, parent, depth, device, context, stream
from events where type = 'userspace' and layer in ('runtime', 'driver', 'library');

-- Kernels as the GPU ran them.
create or replace {{temporary}} view kernels as
select run, host, rank, pid, device, context, stream, start_ns, end_ns, duration_ns, name, correlation,
       grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, details, op_id
from events where type = 'gpu' and category = 'kernel';

-- Copies and fills as the GPU ran them.
create or replace {{temporary}} view copies as
select run, host, rank, pid, device, context, stream, start_ns, end_ns, duration_ns, name,
       cast({{json details bytes}} as bigint) as bytes, correlation, details, op_id
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
       cast({{json details gpu_percent}} as double) as gpu_percent,
       cast({{json details memory_used_bytes}} as bigint) as memory_used_bytes,
       cast({{json details power_mw}} as bigint) as power_mw,
       cast({{json details sm_clock_mhz}} as bigint) as sm_clock_mhz,
       cast({{json details temperature_c}} as bigint) as temperature_c
from events where type = 'counter' and name = 'nvml';

-- One row a recording.
create or replace {{temporary}} view runs as select * from {{runs}};

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
