/*
 * A stand-in for nvidia.ko: the functions that cutrace hooks, by their names and with their
 * arguments, behind the driver's device files. Answers every request with success; writing to
 * /dev/nvidiactl plays an interrupt ("irq") or an error of the GPU ("xid").
 *
 * As the real one: nvidia_ioctl is inlined away, functions of the core have no ftrace sites.
 */
#include "stand-in.h"

#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define CREATE_TRACE_POINTS
#include "xid-trace.h"

#define MAJOR_OF_DRIVER 195
#define LARGEST 4096

static nv_kthread_q_t queue;
static nv_kthread_q_item_t bottom_half;
static struct cdev device;
static struct proc_dir_entry *folder;

KEPT u32 os_alloc_mem(void **address, u64 size);
KEPT u32 os_alloc_mem(void **address, u64 size)
{
	*address = kzalloc(size, GFP_KERNEL);
	return *address ? 0 : 0x51;
}

KEPT void os_free_mem(void *address);
KEPT void os_free_mem(void *address)
{
	kfree(address);
}

KEPT int nv_alloc_pages(void *nv, u32 page_count, u64 page_size, bool contiguous, u32 cache_type,
			bool zeroed, bool unencrypted, int node, u64 *pte_array, void **private);
KEPT int nv_alloc_pages(void *nv, u32 page_count, u64 page_size, bool contiguous, u32 cache_type,
			bool zeroed, bool unencrypted, int node, u64 *pte_array, void **private)
{
	*pte_array = page_count * page_size;
	return 0;
}

/* What is left of a function whose arguments the compiler took apart. */
static KEPT int free_pages_isra(u32 page_count) __asm__("nv_free_pages.isra.0");
static KEPT int free_pages_isra(u32 page_count)
{
	return page_count ? 0 : -EINVAL;
}

KEPT void nv_post_event(void *event, u32 object, u32 index, u32 info32, u16 info16, bool valid);
KEPT void nv_post_event(void *event, u32 object, u32 index, u32 info32, u16 info16, bool valid)
{
	barrier();
}

KEPT void nvidia_isr_kthread_bh(int irq, void *argument);
KEPT void nvidia_isr_kthread_bh(int irq, void *argument)
{
	nv_post_event(argument, 1, 2, 3, 4, true);
}

static void run_bottom_half(void *argument)
{
	nvidia_isr_kthread_bh(11, argument);
}

KEPT irqreturn_t nvidia_isr(int irq, void *argument);
KEPT irqreturn_t nvidia_isr(int irq, void *argument)
{
	nv_kthread_q_schedule_q_item(&queue, &bottom_half);
	return IRQ_WAKE_THREAD;
}

KEPT void nv_report_error(const char *dev, u32 number, const char *text);
KEPT void nv_report_error(const char *dev, u32 number, const char *text)
{
	trace_nvidia_dev_xid(dev, number, text);
}

/* The core: kprobes are refused here, as in the prebuilt objects of the real driver. */
CORE u32 kchannelConstruct_IMPL(void *channel, u32 object);
CORE u32 kchannelConstruct_IMPL(void *channel, u32 object)
{
	return object ? 0 : 0x57;
}

CORE int rm_ioctl(void *sp, void *nv, void *nvfp, u32 cmd, void *data, u32 size);
CORE int rm_ioctl(void *sp, void *nv, void *nvfp, u32 cmd, void *data, u32 size)
{
	void *scratch = NULL;
	void *private;
	u64 pages;

	switch (cmd & 0xff) {
	case 0x2b: /* RM_ALLOC */
		if (os_alloc_mem(&scratch, size))
			return -ENOMEM;
		nv_alloc_pages(nv, 16, PAGE_SIZE, true, 0, true, false, 0, &pages, &private);
		kchannelConstruct_IMPL(scratch, 1);
		os_free_mem(scratch);
		break;
	case 0x29: /* RM_FREE */
		return free_pages_isra(16);
	}
	return 0;
}

static __always_inline long nvidia_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	u32 size = _IOC_SIZE(cmd);
	void *data;
	long answer;

	if (size > LARGEST)
		return -EINVAL;
	data = kzalloc(LARGEST, GFP_KERNEL);
	if (!data)
		return -ENOMEM;
	answer = copy_from_user(data, (void __user *)arg, size) ? -EFAULT : 0;
	if (!answer)
		answer = rm_ioctl(file, &device, file->private_data, cmd, data, size);
	if (!answer && copy_to_user((void __user *)arg, data, size))
		answer = -EFAULT;
	kfree(data);
	return answer;
}

KEPT long nvidia_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
KEPT long nvidia_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return nvidia_ioctl(file, cmd, arg);
}

KEPT int nvidia_open(struct inode *inode, struct file *file);
KEPT int nvidia_open(struct inode *inode, struct file *file)
{
	return 0;
}

KEPT int nvidia_close(struct inode *inode, struct file *file);
KEPT int nvidia_close(struct inode *inode, struct file *file)
{
	return 0;
}

static ssize_t play(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	char first;

	if (!size || get_user(first, from))
		return -EFAULT;
	if (first == 'i')
		nvidia_isr(11, &device);
	else if (first == 'x')
		nv_report_error("0000:01:00", 13, "Graphics Exception: stand-in");
	else
		return -EINVAL;
	return size;
}

static const struct file_operations nvidia_fops = {
	.owner = THIS_MODULE,
	.open = nvidia_open,
	.release = nvidia_close,
	.unlocked_ioctl = nvidia_unlocked_ioctl,
	.write = play,
};

static int show_version(struct seq_file *text, void *unused)
{
	seq_puts(text, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n");
	return 0;
}

static int __init load(void)
{
	int failed;

	queue.work = alloc_ordered_workqueue("nvidia", 0);
	if (!queue.work)
		return -ENOMEM;
	nv_kthread_q_item_init(&bottom_half, run_bottom_half, &device);
	cdev_init(&device, &nvidia_fops);
	failed = register_chrdev_region(MKDEV(MAJOR_OF_DRIVER, 0), 256, "nvidia");
	if (!failed)
		failed = cdev_add(&device, MKDEV(MAJOR_OF_DRIVER, 0), 256);
	if (failed) {
		destroy_workqueue(queue.work);
		return failed;
	}
	folder = proc_mkdir("driver/nvidia", NULL);
	if (folder)
		proc_create_single("version", 0444, folder, show_version);
	return 0;
}

static void __exit unload(void)
{
	if (folder)
		proc_remove(folder);
	cdev_del(&device);
	unregister_chrdev_region(MKDEV(MAJOR_OF_DRIVER, 0), 256);
	destroy_workqueue(queue.work);
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("cutrace: a stand-in for nvidia.ko");
