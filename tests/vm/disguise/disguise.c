/*
 * Makes QEMU's bochs-display look like a device of NVIDIA's, so that NVIDIA's own driver loads in a
 * machine without a GPU. As an NVSwitch (class 0x068000) it is counted, and left alone; the driver's
 * control file and nvidia-uvm then answer requests as ever.
 */
#include <linux/module.h>
#include <linux/pci.h>

#define VENDOR_BOCHS 0x1234
#define DEVICE_BOCHS 0x1111
#define VENDOR 0x10de
#define DEVICE 0x1234
#define CLASS 0x068000

static struct pci_dev *found;
static struct pci_ops *real, ours;

static int read(struct pci_bus *bus, unsigned int slot, int where, int size, u32 *value)
{
	int answer = real->read(bus, slot, where, size, value);
	u32 shift = (where & 3) * 8, whole;

	if (answer || slot != found->devfn || bus != found->bus)
		return answer;
	switch (where & ~3) {
	case PCI_VENDOR_ID:
		whole = DEVICE << 16 | VENDOR;
		break;
	case PCI_CLASS_REVISION:
		whole = CLASS << 8;
		break;
	default:
		return 0;
	}
	*value = whole >> shift;
	if (size < 4)
		*value &= (1u << (8 * size)) - 1;
	return 0;
}

static int __init load(void)
{
	found = pci_get_device(VENDOR_BOCHS, DEVICE_BOCHS, NULL);
	if (!found)
		return -ENODEV;
	real = found->bus->ops;
	ours = *real;
	ours.read = read;
	found->bus->ops = &ours;
	found->vendor = VENDOR;
	found->device = DEVICE;
	found->class = CLASS;
	return 0;
}

static void __exit unload(void)
{
	found->bus->ops = real;
	pci_dev_put(found);
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("cutrace: a display disguised as a device of NVIDIA's");
