# The headline numbers of a trace with jq: jq -n -f summary.jq TRACE. Without the GPU's busy time,
# which needs a sorted list of all intervals.
reduce inputs as $e ({};
  if $e.type == "memory" and $e.op == "alloc" then .allocations += 1 | .allocated += $e.size
  elif $e.type == "transfer" then .transfers += 1 | .moved += $e.size
  elif $e.type == "kernel" and $e.op == "launch" then .launches += 1
  elif $e.type == "lost" then .lost += $e.count
  elif $e.phase == "E" then
    .functions[$e.name].count += 1 | .functions[$e.name].us += $e.duration_us
    | .categories[$e.category].count += 1 | .categories[$e.category].us += $e.duration_us
    | if $e.type == "userspace" then .calls += 1
      elif $e.type == "ioctl" then .ioctls += 1 | .ioctl_us += $e.duration_us
      else . end
  else . end)
