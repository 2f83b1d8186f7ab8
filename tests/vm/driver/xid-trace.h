/* The tracepoint of the real driver since 575: an error that the GPU reported. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvidia

#if !defined(XID_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define XID_TRACE_H

#include <linux/tracepoint.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define ASSIGN_TEXT(field, from) __assign_str(field)
#else
#define ASSIGN_TEXT(field, from) __assign_str(field, from)
#endif

TRACE_EVENT(nvidia_dev_xid,
	TP_PROTO(const char *dev, u32 error_code, const char *msg),
	TP_ARGS(dev, error_code, msg),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u32, error_code)
		__string(msg, msg)
	),
	TP_fast_assign(
		ASSIGN_TEXT(dev, dev);
		__entry->error_code = error_code;
		ASSIGN_TEXT(msg, msg);
	),
	TP_printk("%s: %u %s", __get_str(dev), __entry->error_code, __get_str(msg))
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE xid-trace
#include <trace/define_trace.h>
